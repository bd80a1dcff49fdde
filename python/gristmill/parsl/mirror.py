"""Parsl's module paths under ``gristmill``: ``gristmill.app.errors`` for ``parsl.app.errors`` and so on.

A path is made when it is first imported. It has our names where we have a part of our own, and Parsl's where Parsl is
installed and we have none; where neither is, the error says what to install.
"""

from __future__ import annotations

import importlib
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from gristmill.parsl.presence import is_parsl_installed

_OURS = "gristmill.parsl."

#: Which of our modules hold what Parsl has at a path.
_HOMES: dict[str, tuple[str, ...]] = {
    "addresses": (),
    "app": (),
    "app.app": ("apps",),
    "app.bash": ("apps", "bash"),
    "app.errors": ("errors",),
    "app.futures": ("futures",),
    "app.python": ("apps", "walltime"),
    "concurrent": ("pool",),
    "config": ("config",),
    "data_provider": (),
    "data_provider.data_manager": ("data_manager",),
    "data_provider.file_noop": ("staging.file_noop",),
    "data_provider.files": ("files",),
    "data_provider.ftp": ("staging.ftp",),
    "data_provider.http": ("staging.http",),
    "data_provider.rsync": ("staging.rsync",),
    "data_provider.staging": ("staging",),
    "data_provider.zip": ("staging.zip",),
    "dataflow": (),
    "dataflow.dependency_resolvers": ("dependencies",),
    "dataflow.dflow": ("kernel", "loader"),
    "dataflow.errors": ("errors",),
    "dataflow.futures": ("futures",),
    "dataflow.memoization": ("memoization", "memo_key"),
    "dataflow.states": ("states",),
    "dataflow.taskrecord": ("tasks",),
    "errors": ("errors",),
    "executors": ("executors",),
    "executors.base": ("executors.base",),
    "executors.errors": ("errors",),
    "executors.threads": ("executors.threads",),
    "log_utils": ("run_folder",),
    "utils": ("checkpoint", "representation"),
}


def is_mirrored(path: str) -> bool:
    """Whether ``gristmill.<path>`` is one of Parsl's paths."""
    return path in _HOMES or _theirs(path) is not None


def spec_of(name: str) -> ModuleSpec | None:
    """How to import ``gristmill.<path>``, if that is one of Parsl's paths."""
    path = name.removeprefix("gristmill.")
    return ModuleSpec(name, _Loader(path), is_package=True) if is_mirrored(path) else None


def find(path: str) -> ModuleType | None:
    """The module ``gristmill.<path>``, if that is one of Parsl's paths."""
    return importlib.import_module(f"gristmill.{path}") if is_mirrored(path) else None


class _Loader(Loader):
    def __init__(self, path: str) -> None:
        self._path = path

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Mirror(spec.name, self._path)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: names are looked up when they are asked for."""


class _Mirror(ModuleType):
    """A module whose names are found when they are asked for, ours first."""

    def __init__(self, name: str, path: str) -> None:
        super().__init__(name, f"Parsl's ``parsl.{path}``.")
        self._mirrored_path = path

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        for home in _HOMES.get(self._mirrored_path, ()):
            module = importlib.import_module(_OURS + home)
            if hasattr(module, name):
                value = getattr(module, name)
                break
        else:
            value = self._foreign(name)
        setattr(self, name, value)
        return value

    def _foreign(self, name: str) -> Any:
        path = f"{self._mirrored_path}.{name}"
        if is_mirrored(path):
            return importlib.import_module(f"gristmill.{path}")
        theirs = _theirs(self._mirrored_path)
        if theirs is not None and hasattr(theirs, name):
            return getattr(theirs, name)
        hint = "" if theirs else "; Parsl, which may have it, is not installed: pip install parsl"
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}{hint}")


def _theirs(path: str) -> ModuleType | None:
    """Parsl's module of this path, if Parsl is installed and has it."""
    if not is_parsl_installed():
        return None
    try:
        return importlib.import_module(f"parsl.{path}")
    except ImportError:
        return None
