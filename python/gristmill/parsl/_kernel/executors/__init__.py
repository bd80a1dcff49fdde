"""Executors, to which the kernel submits tasks whose dependencies are final.

``GristmillExecutor`` runs tasks in worker processes of this machine, and is an executor of Parsl's own kernel too.
``ThreadPoolExecutor`` runs them in threads of this process. For executors that only Parsl has, this package exports
Parsl's classes where Parsl is installed, and substitutes where it is not: see ``substitutes``.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from gristmill.parsl._kernel.executors.base import ParslExecutor
    from gristmill.parsl._kernel.executors.engine import GristmillExecutor
    from gristmill.parsl._kernel.executors.substitutes import (
        FluxExecutor,
        GlobusComputeExecutor,
        HighThroughputExecutor,
        MPIExecutor,
        TaskVineExecutor,
        WorkQueueExecutor,
    )
    from gristmill.parsl._kernel.executors.threads import ThreadPoolExecutor

__all__ = [
    "FluxExecutor",
    "GlobusComputeExecutor",
    "GristmillExecutor",
    "HighThroughputExecutor",
    "MPIExecutor",
    "ParslExecutor",
    "TaskVineExecutor",
    "ThreadPoolExecutor",
    "WorkQueueExecutor",
]

_HOME_OF = {"GristmillExecutor": "engine", "ParslExecutor": "base", "ThreadPoolExecutor": "threads"}
#: The modules of Parsl that define the executors that only Parsl has.
_FOREIGN = {
    "FluxExecutor": "parsl.executors",
    "GlobusComputeExecutor": "parsl.executors",
    "HighThroughputExecutor": "parsl.executors",
    "MPIExecutor": "parsl.executors",
    "TaskVineExecutor": "parsl.executors.taskvine",
    "WorkQueueExecutor": "parsl.executors",
}


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        home = f"{__name__}.{_HOME_OF[name]}"
    elif name in _FOREIGN:
        from gristmill.parsl._kernel.parsl_detection import is_parsl_installed

        home = _FOREIGN[name] if is_parsl_installed() else f"{__name__}.substitutes"
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value
