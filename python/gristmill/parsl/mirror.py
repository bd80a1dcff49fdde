"""Parsl's module paths under ``gristmill``: ``gristmill.app.errors`` for ``parsl.app.errors`` and so on.

A path is made when it is first imported. It has our names where we have a part of our own, and Parsl's where Parsl is
installed and we have none. Where Parsl is not, the parts that a local program mentions have substitutes, and the error
for anything else says what to install.
"""

from __future__ import annotations

import importlib
import importlib.util
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from gristmill.parsl.presence import has_parsl, is_parsl_installed

if TYPE_CHECKING:
    from collections.abc import Iterator

_OURS = "gristmill.parsl."

#: Which of our modules hold what Parsl has at a path.
_HOMES: dict[str, tuple[str, ...]] = {
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
    "monitoring": ("monitoring.hub",),
    "monitoring.monitoring": ("monitoring.hub",),
    "utils": ("checkpoint", "representation"),
}

_EXECUTORS = ("executors.substitutes",)
_PROVIDERS = ("providers",)
#: And where Parsl is not installed.
_SUBSTITUTES: dict[str, tuple[str, ...]] = {
    "addresses": ("addresses",),
    "executors.flux": _EXECUTORS,
    "executors.flux.executor": _EXECUTORS,
    "executors.globus_compute": _EXECUTORS,
    "executors.high_throughput": _EXECUTORS,
    "executors.high_throughput.errors": ("losses",),
    "executors.high_throughput.executor": _EXECUTORS,
    "executors.high_throughput.mpi_executor": _EXECUTORS,
    "executors.radical": _EXECUTORS,
    "executors.radical.executor": _EXECUTORS,
    "executors.taskvine": _EXECUTORS,
    "executors.taskvine.executor": _EXECUTORS,
    "executors.workqueue": _EXECUTORS,
    "executors.workqueue.executor": _EXECUTORS,
    "launchers": ("launchers",),
    "launchers.launchers": ("launchers",),
    "logconfigs": (),
    "logconfigs.base": ("log_configs",),
    "logconfigs.file": ("log_configs",),
    "logconfigs.json": ("log_configs",),
    "providers": _PROVIDERS,
    "serialize": ("serialization",),
    "serialize.errors": ("serialization",),
    "serialize.facade": ("serialization",),
    "usage_tracking": (),
    "usage_tracking.levels": ("usage_levels",),
}
#: The provider packages of Parsl, and the module in each.
for _package, _module in {
    "aws": "aws",
    "azure": "azure",
    "condor": "condor",
    "googlecloud": "googlecloud",
    "grid_engine": "grid_engine",
    "kubernetes": "kube",
    "local": "local",
    "lsf": "lsf",
    "pbspro": "pbspro",
    "slurm": "slurm",
    "torque": "torque",
}.items():
    _SUBSTITUTES[f"providers.{_package}"] = _PROVIDERS
    _SUBSTITUTES[f"providers.{_package}.{_module}"] = _PROVIDERS

#: Where the rest of Parsl is: for the error that says that Parsl is not installed.
_PARSL_ONLY = ("benchmark", "configs", "curvezmq", "jobs", "multiprocessing", "process_loggers")


def _homes(path: str) -> tuple[str, ...]:
    homes = _HOMES.get(path, ())
    return homes if is_parsl_installed() else (*homes, *_SUBSTITUTES.get(path, ()))


def is_mirrored(path: str) -> bool:
    """Whether ``gristmill.<path>`` is one of Parsl's paths."""
    if path in _HOMES or has_parsl(path):
        return True
    return not is_parsl_installed() and path in _SUBSTITUTES


def spec_of(name: str) -> ModuleSpec | None:
    """How to import ``gristmill.<path>``, if that is one of Parsl's paths.

    Raises ``ModuleNotFoundError`` for what only Parsl has where it is not installed.
    """
    path = name.removeprefix("gristmill.")
    if is_mirrored(path):
        return ModuleSpec(name, _Loader(path), is_package=True)
    root = path.partition(".")[0]
    if not is_parsl_installed() and (root in _PARSL_ONLY or is_mirrored(root)):
        raise ModuleNotFoundError(f"{name} is a part of Parsl: pip install parsl", name=name)
    return None


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
        if name == "__all__":
            return self.__dir__()
        if name.startswith("__"):
            raise AttributeError(name)
        value = self._find(name)
        setattr(self, name, value)
        return value

    def _find(self, name: str) -> Any:
        # Modules first: those behind this one have attributes of these names too, which are not mirrored.
        path = f"{self._mirrored_path}.{name}"
        if is_mirrored(path):
            return importlib.import_module(f"gristmill.{path}")
        for module in self._modules():
            if hasattr(module, name):
                return getattr(module, name)
        hint = "" if is_parsl_installed() else "; if it is a part of Parsl: pip install parsl"
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}{hint}")

    def __dir__(self) -> list[str]:
        """What ``import *`` gives: the public names of all modules behind this one."""
        return sorted({name for module in self._modules() for name in _public(module)})

    def _modules(self) -> Iterator[ModuleType]:
        """Ours first: Parsl is imported only for what we have not."""
        path = self._mirrored_path
        for home in _homes(path):
            if importlib.util.find_spec(_OURS + home) is not None:
                yield importlib.import_module(_OURS + home)
        if has_parsl(path):
            yield importlib.import_module(f"parsl.{path}")


def _public(module: ModuleType) -> list[str]:
    return getattr(module, "__all__", None) or [n for n in vars(module) if not n.startswith("_")]
