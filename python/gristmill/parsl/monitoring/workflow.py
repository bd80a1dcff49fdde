"""What the tables say of a run as a whole."""

from __future__ import annotations

import datetime
import getpass
import os
import socket
import sys
import time
from typing import Any

from gristmill.parsl.states import States


def began(hub: Any, kernel: Any) -> dict[str, Any]:
    """The columns of the table ``workflow`` as a run begins; the time is in seconds since the epoch."""
    now = time.time()
    version = str(datetime.datetime.fromtimestamp(now).replace(microsecond=0))
    return {
        "run_id": kernel.run_id,
        "workflow_name": program_name() if hub.workflow_name is None else hub.workflow_name,
        "workflow_version": version if hub.workflow_version is None else hub.workflow_version,
        "time_began": now,
        "host": socket.gethostname(),
        "user": _user(),
        "rundir": kernel.run_dir,
        "tasks_failed_count": 0,
        "tasks_completed_count": 0,
    }


def counts(kernel: Any) -> dict[str, int]:
    """How many tasks have failed, and how many have succeeded."""
    states = kernel.task_state_counts
    return {
        "tasks_failed_count": states[States.failed],
        "tasks_completed_count": states[States.exec_done],
    }


def program_name() -> str:
    """The name of the program's file."""
    path = getattr(sys.modules.get("__main__"), "__file__", None)
    return os.path.basename(path) if path else "unnamed"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # A user id without a name, as in a container.
        return str(os.getuid())
