"""The public surface of a package, as JSON: ``python surface.py parsl`` or ``python surface.py gristmill.parsl``.

This runs in a process of its own: it looks at ``gristmill.parsl`` as a program without Parsl sees it.
"""

from __future__ import annotations

import abc
import enum
import functools
import importlib
import inspect
import json
import os
import sys
import tempfile
import types
import typing
from typing import Any

#: Modules of Parsl that programs import from, by their path in the package.
PATHS = (
    "",
    "addresses",
    "app.app",
    "app.bash",
    "app.errors",
    "app.futures",
    "app.python",
    "concurrent",
    "config",
    "data_provider.data_manager",
    "data_provider.file_noop",
    "data_provider.files",
    "data_provider.ftp",
    "data_provider.http",
    "data_provider.rsync",
    "data_provider.staging",
    "data_provider.zip",
    "dataflow.dependency_resolvers",
    "dataflow.dflow",
    "dataflow.errors",
    "dataflow.futures",
    "dataflow.memoization",
    "dataflow.states",
    "dataflow.taskrecord",
    "errors",
    "executors",
    "executors.base",
    "executors.errors",
    "executors.high_throughput.errors",
    "executors.high_throughput.executor",
    "executors.threads",
    "launchers",
    "log_utils",
    "logconfigs.base",
    "logconfigs.file",
    "logconfigs.json",
    "monitoring",
    "monitoring.monitoring",
    "providers",
    "serialize",
    "serialize.errors",
    "usage_tracking.levels",
    "utils",
)


def surface(package: str) -> dict[str, Any]:
    """Describes each public name by its path, such as ``app.python.PythonApp``, and some objects that programs use."""
    found: dict[str, Any] = {}
    for path in PATHS:
        try:
            module = importlib.import_module(f"{package}.{path}" if path else package)
        except ImportError:
            continue
        for name in public_names(module, package):
            value = getattr(module, name, None)
            place = f"{path}.{name}" if path else name
            found[place] = _described(value)
            home = str(getattr(value, "__module__", "")).removeprefix(f"{package}.")
            # A class is examined in its own module only.
            found[place]["is_elsewhere"] = package == "parsl" and home != path and home in PATHS
    found.update(_live(package))
    return found


def public_names(module: types.ModuleType, package: str) -> list[str]:
    if package != "parsl":
        return [name for name in dir(module) if not name.startswith("_")]
    listed = getattr(module, "__all__", ())
    own = [name for name, value in vars(module).items() if _is_own(module, name, value)]
    return sorted(name for name in {*listed, *own} if hasattr(module, name))


def _is_own(module: types.ModuleType, name: str, value: Any) -> bool:
    """Returns whether a module of Parsl defines a name, instead of only importing it."""
    if name.startswith("_") or isinstance(value, types.ModuleType) or name == "logger":
        return False
    if isinstance(value, (str, int, float, list, dict, tuple)):
        return name.isupper() and name != "TYPE_CHECKING"
    return getattr(value, "__module__", None) == module.__name__ and not isinstance(
        value, (typing.TypeVar, typing.ParamSpec)
    )


def _described(value: Any) -> dict[str, Any]:
    if getattr(value, "__doc__", "") == "Cannot be created without Parsl.":
        return {"kind": "stand-in"}
    if isinstance(value, type):
        return _class(value)
    if callable(value):
        return {"kind": "function", "parameters": _parameters(value)}
    return {"kind": "value", "value": repr(value) if isinstance(value, (str, int)) else ""}


def _class(value: type) -> dict[str, Any]:
    parents = [one.__name__ for one in value.__mro__[1:] if one not in (object, abc.ABC)]
    members = {
        name: _member(name, inspect.getattr_static(value, name))
        for name in dir(value)
        if not name.startswith("_")
    }
    return {
        "kind": "class",
        "parameters": _parameters(value.__init__) if not issubclass(value, enum.Enum) else None,
        "bases": parents,
        "members": members,
    }


def _member(name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, staticmethod):
        return {"kind": "method", "parameters": _parameters(value.__func__)}
    if isinstance(value, classmethod):
        return {"kind": "method", "parameters": _parameters(value.__func__)}
    if inspect.isroutine(value):
        return {"kind": "method", "parameters": _parameters(value)}
    return {"kind": "attribute"}


def _parameters(function: Any) -> list[list[str]] | None:
    """Returns names, kinds and defaults, without the object that a method is called on."""
    if isinstance(function, functools.partial):
        return None
    try:
        listed = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None
    if listed and listed[0].name in ("self", "cls"):
        del listed[0]
    return [[one.name, one.kind.name, _default(one.default)] for one in listed]


def _default(value: Any) -> str:
    if value is inspect.Parameter.empty:
        return ""
    if isinstance(value, (str, int, float, tuple, list, dict, type(None))):
        return repr(value)
    return f"a {type(value).__name__}"


def _live(package: str) -> dict[str, Any]:
    """Describes the objects that a program uses."""
    root = importlib.import_module(package)
    os.chdir(tempfile.mkdtemp())
    pool = importlib.import_module(f"{package}.executors").ThreadPoolExecutor(label="threads")
    config = root.Config(executors=[pool], retries=0, initialize_logging=False)
    found: dict[str, Any] = {}
    with root.load(config) as kernel:
        app = root.python_app(_write)
        target = root.File("written")
        future = app(outputs=[target], inputs=[])
        future.result()
        objects = {
            "kernel": kernel,
            "future": future,
            "data future": future.outputs[0],
            "file": target,
            "config": config,
            "executor": pool,
            "app": app,
            "bash app": root.bash_app(_command),
            "memoizer": kernel.memoizer,
        }
        for name, one in objects.items():
            shown = [key for key in dir(one) if not key.startswith("_")]
            found[f"({name})"] = {"kind": "object", "members": {key: {"kind": ""} for key in shown}}
        record = future.task_record
        found["(task record)"] = {
            "kind": "object",
            "members": {key: {"kind": type(record[key]).__name__} for key in record},
        }
        for key, one in objects.items():
            found[f"({key})"]["class"] = type(one).__name__
    return found


def _write(inputs: Any = (), outputs: Any = ()) -> None:
    with open(outputs[0], "w"):
        pass


def _command() -> str:
    return "true"


if __name__ == "__main__":
    if sys.argv[1] == "gristmill.parsl":
        # Parsl then looks as if it were not installed.
        sys.modules["parsl"] = None  # type: ignore[assignment]
    json.dump(surface(sys.argv[1]), sys.stdout)
