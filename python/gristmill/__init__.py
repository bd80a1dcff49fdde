"""A ``concurrent.futures.Executor`` for tasks that take microseconds.

Modules load on first use: ``import gristmill`` costs about a millisecond and works on every platform.
"""

from __future__ import annotations

import os
import sys

#: Type checkers treat this name as true, like ``typing.TYPE_CHECKING``. Importing ``typing`` would take most of the
#: time of this import.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from gristmill import native as native
    from gristmill import on as on
    from gristmill import parsl as parsl
    from gristmill._context.account import ContextReport
    from gristmill._context.declare import Context
    from gristmill._context.files import context_file
    from gristmill._context.terms import ContextCalls, ContextResources, ContextWorkers
    from gristmill._counts import Node, Stats
    from gristmill._errors import (
        ContextError,
        DependencyError,
        ForkedProcessError,
        GristmillError,
        ImageError,
        LeaseExpiredError,
        LimitReachedError,
        RemoteError,
        RemoteTraceback,
        ResourceError,
        ShutDownError,
        StartError,
        TaskTimeoutError,
        UnpicklableError,
        WorkerLostError,
    )
    from gristmill._executor import BoundExecutor, Executor, array, build_info, wait_any
    from gristmill._interrupt import TaskInterrupted
    from gristmill._lease import Lease, LeaseUse
    from gristmill._native import Future
    from gristmill._nested import current_executor
    from gristmill._starting import freeze_support
    from gristmill._task_options import TaskOptions
    from gristmill._timings import Timings

__version__ = "0.1.0"

_HOMES = {
    "gristmill._context.account": ("ContextReport",),
    "gristmill._context.declare": ("Context",),
    "gristmill._context.files": ("context_file",),
    "gristmill._context.terms": ("ContextCalls", "ContextResources", "ContextWorkers"),
    "gristmill._counts": ("Node", "Stats"),
    "gristmill._errors": (
        "ContextError",
        "DependencyError",
        "ForkedProcessError",
        "GristmillError",
        "ImageError",
        "LeaseExpiredError",
        "LimitReachedError",
        "RemoteError",
        "RemoteTraceback",
        "ResourceError",
        "ShutDownError",
        "StartError",
        "TaskTimeoutError",
        "UnpicklableError",
        "WorkerLostError",
    ),
    "gristmill._executor": ("BoundExecutor", "Executor", "array", "build_info", "wait_any"),
    "gristmill._interrupt": ("TaskInterrupted",),
    "gristmill._lease": ("Lease", "LeaseUse"),
    "gristmill._native": ("Future",),
    "gristmill._nested": ("current_executor",),
    "gristmill._starting": ("freeze_support",),
    "gristmill._task_options": ("TaskOptions",),
    "gristmill._timings": ("Timings",),
}
#: Modules that load on every platform.
_PORTABLE = (
    "gristmill._errors",
    "gristmill._interrupt",
    "gristmill._starting",
    "gristmill._timings",
)
#: Public modules that are attributes without an import of their own: ``gristmill.on.ssh(...)``.
_MODULES = ("native", "on", "parsl")
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "BoundExecutor",
    "Context",
    "ContextCalls",
    "ContextError",
    "ContextReport",
    "ContextResources",
    "ContextWorkers",
    "DependencyError",
    "Executor",
    "ForkedProcessError",
    "Future",
    "GristmillError",
    "ImageError",
    "Lease",
    "LeaseExpiredError",
    "LeaseUse",
    "LimitReachedError",
    "Node",
    "RemoteError",
    "RemoteTraceback",
    "ResourceError",
    "ShutDownError",
    "StartError",
    "Stats",
    "TaskInterrupted",
    "TaskOptions",
    "TaskTimeoutError",
    "Timings",
    "UnpicklableError",
    "WorkerLostError",
    "__version__",
    "array",
    "build_info",
    "context_file",
    "current_executor",
    "freeze_support",
    "wait_any",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return _loaded(f"gristmill.{name}")
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'gristmill' has no attribute {name!r}")
    if home not in _PORTABLE and not sys.platform.startswith("linux"):
        home = "gristmill._elsewhere"
    value = getattr(_loaded(home), name)
    globals()[name] = value
    return value


def _loaded(name: str) -> Any:
    """Returns a module and loads it if necessary, without ``importlib``, which few workers load."""
    __import__(name)
    return sys.modules[name]


def __dir__() -> list[str]:
    return sorted(__all__)


if "GRISTMILL_START" in os.environ:
    # Set until an interpreter that Gristmill has started runs the module it was started for. If this is a program, it
    # ends here, before it starts itself again.
    _loaded("gristmill._starting").check_import()
