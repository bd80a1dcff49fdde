"""The monitor for Parsl's own ``MonitoringHub``: it sends messages to the hub's process.

Everything here works as in Parsl's kernel, including a queue between processes and a process for each measured task.
"""

from __future__ import annotations

import datetime
import importlib
import logging
import platform
import time
from typing import TYPE_CHECKING, Any

from gristmill.parsl._kernel.monitoring import facts
from gristmill.parsl._kernel.monitoring.monitor import Monitor
from gristmill.parsl._kernel.monitoring.workflow import began, counts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gristmill.parsl._kernel.tasks import Task


class Reporter(Monitor):
    """A monitor that reports one run to Parsl's hub.

    :param hub: Parsl's; started here.
    :param kernel: the kernel whose run it reports.
    """

    def __init__(self, hub: Any, kernel: Any) -> None:
        self._hub = hub
        self._kernel = kernel
        self._kinds = importlib.import_module("parsl.monitoring.message_type").MessageType
        self._wrap = importlib.import_module("parsl.monitoring.remote").monitor_wrapper
        hub.start(kernel.run_dir, kernel.config.run_dir, kernel.log_config)
        row = began(hub, kernel)
        row["time_began"] = datetime.datetime.fromtimestamp(row["time_began"])
        version = importlib.import_module("parsl.version").VERSION
        # The hub recognizes the first message of a run by its first field.
        self._send(
            self._kinds.WORKFLOW_INFO,
            {"python_version": platform.python_version(), "parsl_version": version, **row},
        )

    def _send(self, kind: Any, message: dict[str, Any]) -> None:
        self._hub.resource_msgs.put((kind, message))

    def add_executor(self, executor: Any) -> None:
        """Opens the radio over which the executor's tasks report."""
        radio = executor.remote_monitoring_radio
        if radio is None:
            return
        messages = executor.monitoring_messages = self._hub.resource_msgs
        executor.monitoring_receiver = radio.create_receiver(
            resource_msgs=messages, run_dir=executor.run_dir
        )

    def moved(self, task: Task) -> None:
        """Reports a task's change of state."""
        record = task.shared()
        message = {
            "run_id": self._kernel.run_id,
            "try_id": task.try_id,
            "timestamp": datetime.datetime.fromtimestamp(time.time()),
            "task_status_name": facts.state_name(task.status),
            "task_executor": task.executor,
            "task_time_invoked": record["time_invoked"],
            "task_time_returned": record["time_returned"],
            "task_try_time_launched": record["try_time_launched"],
            "task_try_time_returned": record["try_time_returned"],
            "task_fail_history": ",".join(facts.failures(task)),
            "task_joins": facts.joined(task),
            **facts.of_task(task),
            **counts(self._kernel),
        }
        self._send(self._kinds.TASK_INFO, message)

    def submission(
        self, task: Task, executor: Any, function: Callable[..., Any]
    ) -> tuple[Callable[..., Any], Sequence[Any], dict[str, Any]]:
        """Returns the call in Parsl's wrapper, if the hub asks for it.

        Raises Parsl's ``RadioRequiredError`` for an executor whose tasks have no radio to report over.
        """
        hub = self._hub
        if not hub.resource_monitoring_enabled:
            return function, task.args, task.kwargs
        if executor.remote_monitoring_radio is None:
            raise importlib.import_module("parsl.monitoring.errors").RadioRequiredError
        wrapped: tuple[Callable[..., Any], Sequence[Any], dict[str, Any]] = self._wrap(
            f=function,
            args=task.args,
            kwargs=task.kwargs,
            x_try_id=task.try_id,
            x_task_id=task.id,
            radio_config=executor.remote_monitoring_radio,
            run_id=self._kernel.run_id,
            logging_level=logging.DEBUG if hub.monitoring_debug else logging.INFO,
            sleep_dur=hub.resource_monitoring_interval,
            monitor_resources=executor.monitor_resources(),
            run_dir=self._kernel.run_dir,
        )
        return wrapped

    def close(self) -> None:
        """Reports that the run has ended, and waits until the hub has written everything."""
        message = {
            "run_id": self._kernel.run_id,
            "rundir": self._kernel.run_dir,
            "time_completed": datetime.datetime.fromtimestamp(time.time()),
            **counts(self._kernel),
        }
        self._send(self._kinds.WORKFLOW_INFO, message)
        self._hub.close()
