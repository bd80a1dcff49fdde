"""What kernels, their monitoring and users may know of an executor's blocks, under the names that it has in Parsl."""

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
    """Says which blocks there are, and has each change of theirs recorded."""

    label: str
    run_id: str | None
    #: Where the kernel takes messages for its monitoring, if it has one.
    monitoring_messages: Any
    _engine: gristmill.Executor | None

    @property
    def _blocks(self) -> Blocks | None:
        scaler = getattr(self._engine and self._engine._placement, "scaler", None)
        return None if scaler is None else scaler.blocks

    @property
    def block_count(self) -> int | None:
        """How many blocks there are or are waited for; ``None`` without a provider."""
        return None if self._blocks is None else len(self._blocks.living())

    @property
    def blocks_to_job_id(self) -> dict[str, Any]:
        """What the provider calls the job of each block that it took."""
        return {} if self._blocks is None else self._blocks.jobs()

    def status(self) -> dict[str, BlockStatus]:
        """What is known of each block that there ever was, by its number; none without a provider."""
        return {} if self._blocks is None else self._blocks.statuses()

    @property
    def status_facade(self) -> dict[str, BlockStatus]:
        """The same as ``status``, which asks no batch system."""
        return self.status()

    def create_monitoring_info(self, status: Mapping[str, BlockStatus]) -> list[dict[str, Any]]:
        """A row of Parsl's table of blocks for each of these."""
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
        """Has this recorded, if the kernel has monitoring."""
        if self.monitoring_messages is not None:
            kind = _message_type().BLOCK_INFO
            self.monitoring_messages.put((kind, self.create_monitoring_info(status)))


def _message_type() -> Any:
    """Parsl's own, where its monitoring is loaded: that compares them."""
    return getattr(sys.modules.get("parsl.monitoring.message_type"), "MessageType", MessageType)
