"""The executors of one kernel: it starts them, finds them by label, scales and ends them."""

from __future__ import annotations

import dataclasses
import importlib
import logging
import os
from collections import Counter
from typing import TYPE_CHECKING, Any

from gristmill import _forked
from gristmill.parsl._kernel.executors.base import ParslExecutor
from gristmill.parsl._kernel.executors.engine import GristmillExecutor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gristmill.parsl._kernel.kernel import DataFlowKernel

_log = logging.getLogger("parsl.gristmill.kernel")

#: The executor that runs join apps, staging and ``future[key]``.
INTERNAL = "_parsl_internal"


def refuse_used(executors: Sequence[Any]) -> None:
    """Raises ``ConfigurationError`` if another kernel uses one of the executors."""
    for executor in executors:
        if isinstance(executor, ParslExecutor):
            executor._refuse_second_kernel()


class ExecutorRegistry:
    """The executors by label.

    :param kernel: the kernel that owns the executors. They get its run id and its folder.
    """

    def __init__(self, kernel: DataFlowKernel) -> None:
        self._kernel = kernel
        self.by_label: dict[str, Any] = {}
        self.poller: Any = None

    def add(self, executors: Sequence[Any], announce: Callable[[Any], None] | None) -> None:
        """Starts executors.

        :param announce: called with each executor before it is started.

        Raises ``ConfigurationError`` if another kernel uses one of them; then none is started.
        """
        refuse_used(executors)
        for executor in executors:
            kind = f"{type(executor).__module__}.{type(executor).__name__}"
            fields = {"parsl.executor.label": executor.label, "parsl.executor.type": kind}
            _log.info("Adding executor %s of type %s", executor.label, kind, extra=fields)
            self._tell_of_run(executor)
            if announce is not None:
                announce(executor)
            self.by_label[executor.label] = executor
            _forked.guarded(executor.start)
        self._scale([executor for executor in executors if hasattr(executor, "poll_facade")])

    def _tell_of_run(self, executor: Any) -> None:
        kernel = self._kernel
        executor.run_id = kernel.run_id
        executor.run_dir = kernel.run_dir
        executor.log_config = kernel.log_config
        if isinstance(executor, GristmillExecutor):
            executor.config = kernel.config
        provider: Any = getattr(executor, "provider", None)
        if hasattr(provider, "script_dir"):
            provider.script_dir = os.path.join(kernel.run_dir, "submit_scripts")
            os.makedirs(provider.script_dir, exist_ok=True)

    def _scale(self, executors: Sequence[Any]) -> None:
        """Lets Parsl's own strategy scale the blocks of Parsl's own executors."""
        if not executors:
            return
        if self.poller is None:
            config = self._kernel.config
            self.poller = importlib.import_module("parsl.jobs.job_status_poller").JobStatusPoller(
                strategy=config.strategy,
                strategy_period=config.strategy_period,
                max_idletime=config.max_idletime,
            )
        self.poller.add_executors(executors)

    def labels(self, executors: str | Sequence[str]) -> Sequence[str]:
        """Returns the labels that an app's ``executors`` stands for.

        Raises ``ValueError`` for anything but a list or ``"all"``.
        """
        if isinstance(executors, str) and executors.lower() == "all":
            return [label for label in self.by_label if label != INTERNAL]
        if isinstance(executors, (list, tuple)):
            return executors
        raise ValueError(
            f'executors must be "all" or a list of labels, not {type(executors).__name__}'
        )

    def engine_stats(self) -> Counter[str]:
        """Returns the sum of the task statistics of all engines."""
        total: Counter[str] = Counter()
        for engine in self._engines():
            total.update(dataclasses.asdict(engine.stats()))
        return total

    def wait_for_engines(self) -> None:
        """Waits until every task that engines have now is final."""
        for engine in self._engines():
            engine.wait()

    def _engines(self) -> Iterator[GristmillExecutor]:
        return (
            executor
            for executor in list(self.by_label.values())
            if isinstance(executor, GristmillExecutor)
        )

    def ends(self) -> list[Callable[[], object]]:
        """Returns the functions that end the executors, in the order in which to call them."""
        scaling = [self.poller.close] if self.poller is not None else []
        return [*scaling, *(executor.shutdown for executor in self.by_label.values())]
