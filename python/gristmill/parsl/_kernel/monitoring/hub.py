"""``MonitoringHub``: the part of a configuration that turns on the recording of a run."""

from __future__ import annotations

import os
import threading
import warnings
from typing import TYPE_CHECKING, Any

from gristmill import _options
from gristmill.parsl._kernel.monitoring.database import path_of
from gristmill.parsl._kernel.representation import RepresentationMixin

if TYPE_CHECKING:
    from gristmill.parsl._kernel.monitoring.database import Database

#: Arguments of Parsl's hub: ports and addresses of processes that this hub does not have.
_UNUSED = ("hub_address", "hub_port_range", "hub_port")


class MonitoringHub(RepresentationMixin):
    """A recorder of a run in an SQLite database: its tasks, their states, and what they used.

    :param hub_address: not used, like ``hub_port_range`` and ``hub_port``: nothing connects to a hub. Any value but
        ``None`` gives a ``DeprecationWarning``.
    :param workflow_name: the run's name; the program's file name if not given.
    :param workflow_version: the run's version; the time of its start if not given.
    :param logging_endpoint: ``sqlite:///`` and the path of the database; ``monitoring.db`` in ``Config.run_dir`` if not
        given. Runs are added to an existing database.
    :param monitoring_debug: accepted; errors are logged in any case.
    :param resource_monitoring_enabled: whether tasks are measured where they run: when they began and ended, on which
        machine, and what they used.
    :param resource_monitoring_interval: seconds between two readings of a task's resource use, in addition to those at
        its start and end; 0 for no readings at all.

    Raises ``ConfigurationError`` for a ``logging_endpoint`` of another kind. A hub serves one run.
    """

    def __init__(
        self,
        hub_address: Any = None,
        hub_port_range: Any = None,
        hub_port: Any = None,
        workflow_name: str | None = None,
        workflow_version: str | None = None,
        logging_endpoint: str | None = None,
        monitoring_debug: bool = False,
        resource_monitoring_enabled: bool = True,
        resource_monitoring_interval: float = 30,
    ) -> None:
        self.hub_address = hub_address
        self.hub_port_range = hub_port_range
        self.hub_port = hub_port
        self.workflow_name = workflow_name
        self.workflow_version = workflow_version
        self.logging_endpoint = logging_endpoint
        self.monitoring_debug = monitoring_debug
        self.resource_monitoring_enabled = resource_monitoring_enabled
        self.resource_monitoring_interval = resource_monitoring_interval
        self._check()

    def _check(self) -> None:
        for name in _UNUSED:
            if getattr(self, name) is not None:
                warnings.warn(
                    f"MonitoringHub.{name} is not used: nothing connects to it",
                    DeprecationWarning,
                    stacklevel=3,
                )
        for name in ("workflow_name", "workflow_version", "logging_endpoint"):
            _options.optional_text(name, getattr(self, name))
        if self.logging_endpoint is not None:
            path_of(self.logging_endpoint)
        for name in ("monitoring_debug", "resource_monitoring_enabled"):
            _options.flag(name, getattr(self, name))
        interval = self.resource_monitoring_interval
        # The limit of waits in threads.
        if not isinstance(interval, (int, float)) or not 0 <= interval <= threading.TIMEOUT_MAX:
            raise TypeError(
                f"resource_monitoring_interval must be seconds, 0 or more, not {_options.shown(interval)}"
            )

    def open(self, config_run_dir: str | os.PathLike[str]) -> Database:
        """Opens the database; called by the kernel.

        :param config_run_dir: the folder of all runs.

        Raises ``ConfigurationError`` if it cannot be opened.
        """
        import sqlite3

        from gristmill.parsl._kernel.monitoring.database import Database

        if self.logging_endpoint is None:
            self.logging_endpoint = f"sqlite:///{os.fspath(config_run_dir)}/monitoring.db"
        try:
            return Database(path_of(self.logging_endpoint))
        except (sqlite3.Error, OSError) as error:
            from gristmill.parsl._kernel.errors import ConfigurationError

            raise ConfigurationError(
                f"the monitoring database {self.logging_endpoint} cannot be opened: {error}"
            ) from error
