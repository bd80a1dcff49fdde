"""The blocks of an executor, for kernels, their monitoring and users, under Parsl's names."""

from __future__ import annotations

import datetime
import enum
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    import gristmill
    from gristmill._nodes.block_status import BlockStatus
    from gristmill._nodes.blocks import Blocks


class MessageType(enum.Enum):
    """Kinds of messages in a program that has not loaded Parsl, with Parsl's numbers."""

    BLOCK_INFO = 4


class TellsOfBlocks:
    """A mixin that lists an executor's blocks and records each of their changes."""

    label: str
    run_id: str | None
    #: The kernel's queue of monitoring messages, if the kernel has monitoring.
    monitoring_messages: Any
    _engine: gristmill.Executor | None

    @property
    def _blocks(self) -> Blocks | None:
        scaler = getattr(self._engine and self._engine._placement, "scaler", None)
        return None if scaler is None else scaler.blocks

    @property
    def block_count(self) -> int | None:
        """The number of blocks that exist or are requested; ``None`` without a provider."""
        return None if self._blocks is None else len(self._blocks.living())

    @property
    def blocks_to_job_id(self) -> dict[str, Any]:
        """The provider's job id of each block in ``status`` that it accepted."""
        return {} if self._blocks is None else self._blocks.jobs()

    def status(self) -> dict[str, BlockStatus]:
        """Returns the statuses of all blocks that live and of the last 1,000 that have ended, by number.

        Empty without a provider.
        """
        return {} if self._blocks is None else self._blocks.statuses()

    @property
    def status_facade(self) -> dict[str, BlockStatus]:
        """The same as ``status``. It sends no request to a batch system."""
        return self.status()

    def create_monitoring_info(self, status: Mapping[str, BlockStatus]) -> list[dict[str, Any]]:
        """Returns a row of Parsl's table of blocks for each of the given blocks."""
        jobs, now = self.blocks_to_job_id, datetime.datetime.now()
        return [
            {
                "run_id": self.run_id,
                "status": one.status_name,
                "timestamp": now,
                "executor_label": self.label,
                "job_id": jobs.get(number),
                "block_id": number,
            }
            for number, one in status.items()
        ]

    def send_monitoring_info(self, status: Mapping[str, BlockStatus]) -> None:
        """Records the given blocks, if the kernel has monitoring."""
        if self.monitoring_messages is not None:
            kind = _message_type().BLOCK_INFO
            self.monitoring_messages.put((kind, self.create_monitoring_info(status)))


def _message_type() -> Any:
    """Returns Parsl's own type where its monitoring is loaded, because that compares message types."""
    return getattr(sys.modules.get("parsl.monitoring.message_type"), "MessageType", MessageType)
