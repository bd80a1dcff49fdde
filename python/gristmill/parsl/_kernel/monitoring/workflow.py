"""The data of a whole run for the tables."""

from __future__ import annotations

import datetime
import getpass
import os
import socket
import sys
import time
from types import FrameType
from typing import Any

from gristmill.parsl._kernel.states import States


def began(hub: Any, kernel: Any) -> dict[str, Any]:
    """Returns the columns of the table ``workflow`` at the start of a run. The time is in seconds since the epoch."""
    return {
        "run_id": kernel.run_id,
        "workflow_name": kernel.workflow_name,
        "workflow_version": kernel.workflow_version,
        "time_began": time.time(),
        "host": socket.gethostname(),
        "user": _user(),
        "rundir": kernel.run_dir,
        "tasks_failed_count": 0,
        "tasks_completed_count": 0,
    }


def counts(kernel: Any) -> dict[str, int]:
    """Returns the number of failed tasks, and the number of succeeded tasks."""
    states = kernel.task_state_counts
    return {
        "tasks_failed_count": states[States.failed],
        "tasks_completed_count": states[States.exec_done],
    }


#: Packages whose frames may lie between a program and its kernel.
_BETWEEN = ("gristmill", "parsl", "typeguard")


def name_workflow(hub: Any) -> tuple[str, str]:
    """Returns the name and the version of the workflow of a kernel that is being made.

    :param hub: the configuration's ``MonitoringHub``, or ``None``. Its names come first.

    Otherwise the name is that of the file that makes the kernel, and the version is the time, to the second.
    """
    name = getattr(hub, "workflow_name", None)
    version = getattr(hub, "workflow_version", None)
    now = datetime.datetime.now().replace(microsecond=0)
    return (
        _name_of_caller() if name is None else name,
        str(now) if version is None else version,
    )


def _name_of_caller() -> str:
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        home = str(frame.f_globals.get("__name__", ""))
        if home.partition(".")[0] not in _BETWEEN:
            return os.path.basename(frame.f_code.co_filename)
        frame = frame.f_back
    return "unnamed"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as in a container
        return str(os.getuid())
