"""How often a task may fail before it has failed for good."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gristmill.parsl.losses import is_loss

if TYPE_CHECKING:
    from gristmill.parsl.tasks import TaskRecord


class Budgets:
    """Two budgets for each task: for its own failures, and for workers that were lost under it.

    :param config: the kernel's configuration: ``retries``, ``loss_retries`` and the ``retry_handler``.
    """

    def __init__(self, config: Any) -> None:
        self._retries = config.retries
        self._handler = config.retry_handler
        for_losses = getattr(config, "loss_retries", None)
        self._loss_retries = self._retries if for_losses is None else for_losses

    def charge(self, task: TaskRecord, error: BaseException) -> tuple[BaseException, bool]:
        """Takes a failure from its budget; gives what to report, and whether another attempt is due."""
        if self._handler is not None:
            try:
                task.fail_cost += self._handler(error, task)
            except Exception as raised:
                task.fail_cost = self._retries + 1
                return raised, False
            return error, task.fail_cost <= self._retries
        if is_loss(error):
            # A lost worker is not the task's fault.
            task.loss_count += 1
            return error, task.loss_count <= self._loss_retries
        task.fail_cost += 1
        return error, task.fail_cost <= self._retries
