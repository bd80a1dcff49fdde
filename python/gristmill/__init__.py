"""Gristmill runs very many very small tasks: an ``Executor`` like the standard library's, two orders faster.

Nothing is loaded before it is used: ``import gristmill`` costs about a millisecond, and works on every platform.
"""

from __future__ import annotations

import importlib
import sys

#: Type checkers know the name; ``typing`` itself would be most of the cost of this import.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from gristmill import on as on
    from gristmill import parsl as parsl
    from gristmill import screen as screen
    from gristmill._context.account import ContextEquipment, ContextReport
    from gristmill._context.declare import Context
    from gristmill._context.files import context_file
    from gristmill._errors import (
        ContextError,
        DependencyFailed,
        ForkedProcessError,
        GristmillError,
        ImageError,
        LeaseExpired,
        LimitReached,
        RemoteError,
        RemoteTraceback,
        ResourceError,
        ShutDownError,
        StartError,
        TaskTimeout,
        UnpicklableError,
        WorkerLost,
    )
    from gristmill._executor import Executor, TaskOptions, array, build_info, wait_any
    from gristmill._interrupt import TaskInterrupted
    from gristmill._lease import Lease, LeaseUse
    from gristmill._native import Future
    from gristmill._nested import current_executor
    from gristmill.parsl.apps import bash_app, join_app, python_app
    from gristmill.parsl.arguments import AUTO_LOGNAME
    from gristmill.parsl.config import Config
    from gristmill.parsl.executors import (
        GristmillExecutor,
        HighThroughputExecutor,
        ThreadPoolExecutor,
        WorkQueueExecutor,
    )
    from gristmill.parsl.files import File
    from gristmill.parsl.kernel import DataFlowKernel
    from gristmill.parsl.loader import DataFlowKernelLoader as DataFlowKernelLoader
    from gristmill.parsl.loader import clear as clear
    from gristmill.parsl.loader import dfk as dfk
    from gristmill.parsl.loader import load as load
    from gristmill.parsl.loader import wait_for_current_tasks as wait_for_current_tasks
    from gristmill.parsl.run_folder import set_file_logger, set_stream_logger

    MonitoringHub: Any

__version__ = "0.1.0"

_HOMES = {
    "gristmill._context.account": ("ContextEquipment", "ContextReport"),
    "gristmill._context.declare": ("Context",),
    "gristmill._context.files": ("context_file",),
    "gristmill._errors": (
        "ContextError",
        "DependencyFailed",
        "ForkedProcessError",
        "GristmillError",
        "ImageError",
        "LeaseExpired",
        "LimitReached",
        "RemoteError",
        "RemoteTraceback",
        "ResourceError",
        "ShutDownError",
        "StartError",
        "TaskTimeout",
        "UnpicklableError",
        "WorkerLost",
    ),
    "gristmill._executor": ("Executor", "TaskOptions", "array", "build_info", "wait_any"),
    "gristmill._interrupt": ("TaskInterrupted",),
    "gristmill._lease": ("Lease", "LeaseUse"),
    "gristmill._native": ("Future",),
    "gristmill._nested": ("current_executor",),
    "gristmill.parsl.monitoring.hub": ("MonitoringHub",),
    "gristmill.parsl.apps": ("bash_app", "join_app", "python_app"),
    "gristmill.parsl.arguments": ("AUTO_LOGNAME",),
    "gristmill.parsl.config": ("Config",),
    "gristmill.parsl.executors": (
        "GristmillExecutor",
        "HighThroughputExecutor",
        "ThreadPoolExecutor",
        "WorkQueueExecutor",
    ),
    "gristmill.parsl.files": ("File",),
    "gristmill.parsl.kernel": ("DataFlowKernel",),
    "gristmill.parsl.loader": (
        "DataFlowKernelLoader",
        "clear",
        "dfk",
        "load",
        "wait_for_current_tasks",
    ),
    "gristmill.parsl.run_folder": ("set_file_logger", "set_stream_logger"),
}
#: Loadable on every platform.
_PORTABLE = (
    "gristmill._errors",
    "gristmill._interrupt",
    "gristmill.parsl.arguments",
    "gristmill.parsl.files",
    "gristmill.parsl.run_folder",
)
#: Public modules, there without an import of their own: ``gristmill.on.ssh(...)``.
_MODULES = ("on", "parsl", "screen")
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "AUTO_LOGNAME",
    "Config",
    "Context",
    "ContextEquipment",
    "ContextError",
    "ContextReport",
    "DataFlowKernel",
    "DependencyFailed",
    "Executor",
    "File",
    "ForkedProcessError",
    "Future",
    "GristmillError",
    "GristmillExecutor",
    "HighThroughputExecutor",
    "ImageError",
    "Lease",
    "LeaseExpired",
    "LeaseUse",
    "LimitReached",
    "MonitoringHub",
    "RemoteError",
    "RemoteTraceback",
    "ResourceError",
    "ShutDownError",
    "StartError",
    "TaskInterrupted",
    "TaskOptions",
    "TaskTimeout",
    "ThreadPoolExecutor",
    "UnpicklableError",
    "WorkQueueExecutor",
    "WorkerLost",
    "__version__",
    "array",
    "bash_app",
    "build_info",
    "context_file",
    "current_executor",
    "join_app",
    "python_app",
    "set_file_logger",
    "set_stream_logger",
    "wait_any",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"gristmill.{name}")
    home = _HOME_OF.get(name)
    if home is None:
        return _mirrored(name)
    if home not in _PORTABLE and not sys.platform.startswith("linux"):
        home = "gristmill._elsewhere"
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def _mirrored(name: str) -> Any:
    """A path of Parsl's as an attribute: ``gristmill.config``, ``gristmill.data_provider``."""
    if not name.startswith("_"):
        from gristmill.parsl.mirror import find

        if (module := find(name)) is not None:
            return module
    raise AttributeError(f"module 'gristmill' has no attribute {name!r}")


class _Finder:
    """Finds Parsl's module paths under this package; asked only for what is no file of it."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        if not name.startswith("gristmill.") or name.startswith(
            ("gristmill._", "gristmill.parsl.")
        ):
            return None
        from gristmill.parsl.mirror import spec_of

        return spec_of(name)


sys.meta_path.append(_Finder)


def __dir__() -> list[str]:
    return sorted({*__all__, *_HOME_OF})
