"""The network of the suite's `lnni` for the rows of contexts: its file, and a program that opens it.

The suite is imported when something is asked for, not before: it needs distributions that benchmarks of the engine do
without.
"""

import importlib
import os
from pathlib import Path
from typing import Any

from benches import machine
from benches.contexts import environment

#: What the suite needs.
SUITE = ("msgspec", "pydantic", "tomli_w")


def network() -> Any:
    """Finds the network and inference with it."""
    return importlib.import_module("gristmill.bench.apps.resnet")


def file() -> Path:
    """Names the file of the network, written if it was not yet."""
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
    """Sets up what a program of that kind has: an environment of many modules, and the network."""
    return {**environment.imported(environment.HEAVY), **opened(path)}


def infer(session: Any, picture: Any, count: int) -> Any:
    """Runs so many inferences; returns the class that the last one found."""
    return network().infer(session, picture, count)


def inferred(context: Any, count: int) -> Any:
    """Runs so many inferences with what a context has."""
    return network().inferred(context, count)
