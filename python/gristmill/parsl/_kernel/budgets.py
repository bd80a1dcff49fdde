"""The number of failures that a task may have before it fails for good."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from gristmill import _forked
from gristmill.parsl._kernel.losses import is_loss

if TYPE_CHECKING:
    from gristmill.parsl._kernel.tasks import Task

_log = logging.getLogger("parsl.gristmill.kernel")


class Budgets:
    """The two budgets of each task: one for its own failures, one for workers that were lost while they ran it.

    :param config: the kernel's configuration: ``retries``, ``loss_retries`` and the ``retry_handler``.
    """

    def __init__(self, config: Any) -> None:
        self._config = config
        self._handler = config.retry_handler
        for_losses = getattr(config, "loss_retries", None)
        self._loss_retries = config.retries if for_losses is None else for_losses

    def charge(self, task: Task, error: BaseException) -> tuple[BaseException, bool]:
        """Charges a failure to its budget. Returns the error to report, and whether the task is retried."""
        if self._handler is not None:
            try:
                cost = _forked.guarded(self._handler, error, task.shared())
                # Read after the call, because the handler may have changed it.
                task.fail_cost += cost
                return error, bool(task.fail_cost <= self._config.retries)
            except Exception as raised:
                _log.exception("the retry_handler failed for task %s: it is not retried", task.id)
                task.fail_cost = self._config.retries + 1
                return raised, False
        if is_loss(error):
            # The task did not cause the loss of its worker.
            task.loss_count += 1
            return error, task.loss_count <= self._loss_retries
        task.fail_cost += 1
        return error, bool(task.fail_cost <= self._config.retries)
