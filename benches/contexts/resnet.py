"""The network of the suite's `lnni` for the rows of contexts: its file, and a program that opens it.

The suite's module is imported only when a function here is called: what a worker imports is measured.
"""

import importlib
import os
from pathlib import Path
from typing import Any

from benches import machine
from benches.contexts import environment


def network() -> Any:
    """Imports the module with the network and its inference."""
    return importlib.import_module("gristmill_bench.apps.resnet")


def file() -> Path:
    """Returns the path of the network's file, and writes the file if it does not exist."""
    path = machine.ROOT / "target" / "benches" / "resnet50.onnx"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(f".{os.getpid()}")
        network().write(unfinished)
        unfinished.rename(path)
    return path


def opened(path: str) -> Any:
    """Sets up inference."""
    return network().opened(path)


def program(path: str) -> dict[str, Any]:
    """Sets up what such a program has: an environment of many modules, and the network."""
    return {**environment.imported(environment.HEAVY), **opened(path)}


def infer(session: Any, picture: Any, count: int) -> Any:
    """Runs `count` inferences. Returns the class that the last one found."""
    return network().infer(session, picture, count)


def inferred(context: Any, count: int) -> Any:
    """Runs `count` inferences with the contents of a context."""
    return network().inferred(context, count)
