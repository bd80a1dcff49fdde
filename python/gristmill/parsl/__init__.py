"""Parsl's programming interface on Gristmill's engine: ``import gristmill.parsl as parsl`` instead of ``import parsl``.

Parsl's module paths are below this package: ``gristmill.parsl.config`` for ``parsl.config``. Parsl need not be
installed; if it is, what Gristmill has no counterpart of is Parsl's.

Two more ways to use Gristmill in a Parsl program need Parsl:

* ``install()`` replaces Parsl's kernel with Gristmill's in a program that imports ``parsl``; ``python -m
  gristmill.parsl program.py`` does so for an unchanged program.
* ``GristmillExecutor`` runs the tasks of Parsl's own kernel on Gristmill's engine.

Modules load on first use: ``import gristmill.parsl`` loads no other module.
"""

from __future__ import annotations

import sys

#: Type checkers treat this name as true, like ``typing.TYPE_CHECKING``.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from gristmill.parsl._kernel.apps import bash_app, join_app, python_app
    from gristmill.parsl._kernel.arguments import AUTO_LOGNAME
    from gristmill.parsl._kernel.config import Config
    from gristmill.parsl._kernel.executors import (
        GristmillExecutor,
        HighThroughputExecutor,
        ThreadPoolExecutor,
        WorkQueueExecutor,
    )
    from gristmill.parsl._kernel.files import File
    from gristmill.parsl._kernel.installation import install as install
    from gristmill.parsl._kernel.kernel import DataFlowKernel
    from gristmill.parsl._kernel.loader import DataFlowKernelLoader as DataFlowKernelLoader
    from gristmill.parsl._kernel.loader import clear as clear
    from gristmill.parsl._kernel.loader import dfk as dfk
    from gristmill.parsl._kernel.loader import load as load
    from gristmill.parsl._kernel.loader import wait_for_current_tasks as wait_for_current_tasks
    from gristmill.parsl._kernel.run_folder import set_file_logger, set_stream_logger

    MonitoringHub: Any

#: The modules of ``_kernel`` that define the public names.
_HOMES = {
    "apps": ("bash_app", "join_app", "python_app"),
    "arguments": ("AUTO_LOGNAME",),
    "config": ("Config",),
    "executors": (
        "GristmillExecutor",
        "HighThroughputExecutor",
        "ThreadPoolExecutor",
        "WorkQueueExecutor",
    ),
    "files": ("File",),
    "installation": ("install",),
    "kernel": ("DataFlowKernel",),
    "loader": ("DataFlowKernelLoader", "clear", "dfk", "load", "wait_for_current_tasks"),
    "monitoring.hub": ("MonitoringHub",),
    "run_folder": ("set_file_logger", "set_stream_logger"),
}
#: Modules that load on every platform.
_PORTABLE = ("arguments", "files", "run_folder")
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "AUTO_LOGNAME",
    "Config",
    "DataFlowKernel",
    "File",
    "GristmillExecutor",
    "HighThroughputExecutor",
    "MonitoringHub",
    "ThreadPoolExecutor",
    "WorkQueueExecutor",
    "bash_app",
    "join_app",
    "python_app",
    "set_file_logger",
    "set_stream_logger",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        return _submodule(name)
    is_here = home in _PORTABLE or sys.platform.startswith("linux")
    module = f"gristmill.parsl._kernel.{home}" if is_here else "gristmill._elsewhere"
    # This needs no ``importlib``, which few workers load.
    __import__(module)
    value = getattr(sys.modules[module], name)
    globals()[name] = value
    return value


def _submodule(name: str) -> Any:
    """Returns a submodule that a program did not import, such as ``config`` or ``data_provider``."""
    if not name.startswith("_"):
        from gristmill.parsl._fallback import find

        if (module := find(f"gristmill.parsl.{name}")) is not None:
            return module
    raise AttributeError(f"module 'gristmill.parsl' has no attribute {name!r}")


class _Finder:
    """Finder of the modules of Parsl that have no file in this package: Python asks it only for those."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        if not name.startswith("gristmill.parsl.") or name.startswith("gristmill.parsl._"):
            return None
        from gristmill.parsl._fallback import spec_of

        return spec_of(name)


sys.meta_path.append(_Finder)  # type: ignore[arg-type, unused-ignore]


def __dir__() -> list[str]:
    return sorted({*__all__, *_HOME_OF})
