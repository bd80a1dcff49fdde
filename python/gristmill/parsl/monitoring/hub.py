"""``MonitoringHub``: what a program puts into its configuration to have its run recorded."""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING, Any

from gristmill.parsl.monitoring.database import path_of
from gristmill.parsl.representation import RepresentationMixin

if TYPE_CHECKING:
    from gristmill.parsl.monitoring.database import Database

#: Arguments of Parsl's that were ports and addresses of processes which this one does not have.
_UNUSED = ("hub_address", "hub_port_range", "hub_port")


class MonitoringHub(RepresentationMixin):
    """Records a run in a SQLite database: its tasks, their states, and what they used.

    :param hub_address: accepted and not used, as the next two: there is nothing to connect to.
    :param workflow_name: the run's name; the program's file name if not given.
    :param workflow_version: the run's version; when it began if not given.
    :param logging_endpoint: ``sqlite:///`` and the path of the database; ``monitoring.db`` in ``Config.run_dir`` if not
        given. Runs are added to what is in it.
    :param monitoring_debug: accepted; what goes wrong is logged in any case.
    :param resource_monitoring_enabled: whether tasks are measured where they run: when they began and ended, on which
        machine, and what they used.
    :param resource_monitoring_interval: seconds between two readings of a task's use of resources, besides those as it
        begins and ends; 0 for none at all.

    Raises ``ConfigurationError`` for a ``logging_endpoint`` of another kind. Used for one run.
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
        if self.logging_endpoint is not None:
            path_of(self.logging_endpoint)
        interval = self.resource_monitoring_interval
        if not isinstance(interval, (int, float)) or not interval >= 0:
            raise TypeError(
                f"resource_monitoring_interval must be seconds, 0 or more, not {interval!r}"
            )

    def open(self, config_run_dir: str | os.PathLike[str]) -> Database:
        """Opens the database; called by the kernel.

        :param config_run_dir: the folder of all runs.

        Raises ``ConfigurationError`` if it cannot be opened.
        """
        import sqlite3

        from gristmill.parsl.monitoring.database import Database

        if self.logging_endpoint is None:
            self.logging_endpoint = f"sqlite:///{os.fspath(config_run_dir)}/monitoring.db"
        try:
            return Database(path_of(self.logging_endpoint))
        except (sqlite3.Error, OSError) as error:
            from gristmill.parsl.errors import ConfigurationError

            raise ConfigurationError(
                f"the monitoring database {self.logging_endpoint} cannot be opened: {error}"
            ) from error
