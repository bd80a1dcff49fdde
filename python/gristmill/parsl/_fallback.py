"""Parsl's own modules and names, for the paths below ``gristmill.parsl`` where Gristmill has no counterpart.

A module ``gristmill.parsl.<path>`` exports Gristmill's names. For any other name it asks ``parsl.<path>``, if Parsl is
installed. A path that only Parsl has becomes a module that exports Parsl's names. Where Parsl is not installed, some
modules export substitutes, and the error for any other path or name says what to install.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from gristmill.parsl._kernel.parsl_detection import has_parsl, is_parsl_installed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_HERE = "gristmill.parsl."
_KERNEL = "gristmill.parsl._kernel."
#: Packages and modules of Parsl without a counterpart here, for the error that says that Parsl is not installed.
_PARSL_ONLY = (
    "benchmark",
    "configs",
    "curvezmq",
    "jobs",
    "multiprocessing",
    "process_loggers",
    "version",
)


def lookups(
    module_name: str, *, ours: str | None = None, substitutes: str | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns the functions ``__getattr__`` and ``__dir__`` of a module ``gristmill.parsl.<path>``.

    A module calls this after its imports. ``__getattr__`` finds the names that it does not import, and ``__dir__``
    returns all names, also for ``import *``.

    :param module_name: the module's name.
    :param ours: a module of ``_kernel`` that imports the names' own modules when they are used.
    :param substitutes: a module of ``_kernel`` with the names that a program without Parsl needs.
    """
    path = module_name.removeprefix(_HERE)
    own = {
        name
        for name, value in vars(sys.modules[module_name]).items()
        if not name.startswith("_")
        and name != "TYPE_CHECKING"
        and not isinstance(value, ModuleType)
    }

    def modules() -> Iterator[ModuleType]:
        """Yields the modules to ask, ours first: Parsl is imported only for names that we do not have."""
        if ours is not None:
            yield importlib.import_module(_KERNEL + ours)
        if has_parsl(path):
            yield importlib.import_module(f"parsl.{path}")
        elif substitutes is not None and not is_parsl_installed():
            yield importlib.import_module(_KERNEL + substitutes)

    def __getattr__(name: str) -> Any:
        if name == "__all__":
            return __dir__()
        if name.startswith("__"):
            raise AttributeError(f"module {module_name!r} has no attribute {name!r}")
        value = _found(module_name, name, modules())
        setattr(sys.modules[module_name], name, value)
        return value

    def __dir__() -> list[str]:
        return sorted(own.union(*map(_public, modules())))

    return __getattr__, __dir__


def _found(module_name: str, name: str, modules: Iterator[ModuleType]) -> Any:
    # Submodules come first: the modules to ask also have attributes of these names.
    if (submodule := find(f"{module_name}.{name}")) is not None:
        return submodule
    for module in modules:
        if hasattr(module, name):
            return getattr(module, name)
    hint = "" if is_parsl_installed() else "; if it is a part of Parsl: pip install parsl"
    raise AttributeError(f"module {module_name!r} has no attribute {name!r}{hint}")


def find(module_name: str) -> ModuleType | None:
    """Returns the module of this name below ``gristmill.parsl``, or ``None`` if there is none."""
    package = sys.modules[module_name.rpartition(".")[0]]
    if not hasattr(package, "__path__"):
        return None
    try:
        is_there = importlib.util.find_spec(module_name) is not None
    except ModuleNotFoundError:
        return None
    return importlib.import_module(module_name) if is_there else None


def _public(module: ModuleType) -> list[str]:
    return getattr(module, "__all__", None) or [n for n in vars(module) if not n.startswith("_")]


def spec_of(module_name: str) -> ModuleSpec | None:
    """Returns the import specification of a module ``gristmill.parsl.<path>`` that has no file there.

    Returns ``None`` if Parsl has no module at that path. Where Parsl is not installed, this raises
    ``ModuleNotFoundError`` for a module that Parsl may have.
    """
    path = module_name.removeprefix(_HERE)
    if has_parsl(path):
        return ModuleSpec(module_name, _Loader(), is_package=True)
    if not is_parsl_installed() and (path in _PARSL_ONLY or "." in path):
        raise ModuleNotFoundError(
            f"{module_name} is a part of Parsl: pip install parsl", name=module_name
        )
    return None


class _Loader(Loader):
    """A loader of modules whose names are all Parsl's."""

    def exec_module(self, module: ModuleType) -> None:
        """Gives the module the functions that look names up when they are used."""
        name = module.__name__
        module.__doc__ = f"Parsl's own ``parsl.{name.removeprefix(_HERE)}``."
        module.__getattr__, module.__dir__ = lookups(name)  # type: ignore[method-assign]
