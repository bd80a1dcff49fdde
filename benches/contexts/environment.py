"""The environment of the rows of contexts: what is installed, a heavy stack, and files that nobody has read yet."""

import importlib
import importlib.metadata
import importlib.util
import os
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benches.model import Unavailable

#: What a program of data science imports; some 3,000 files.
HEAVY = (
    "numpy",
    "scipy.optimize",
    "scipy.stats",
    "pandas",
    "sklearn.ensemble",
    "sklearn.linear_model",
    "matplotlib.figure",
    "sympy",
    "PIL.Image",
    "onnxruntime",
    "rdkit.Chem",
)
#: The distributions that an environment has at least, to be called one.
DISTRIBUTIONS_MIN = 100


def needed(*modules: str) -> None:
    """Finds that the modules a row needs are installed; says how to install them otherwise."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            raise Unavailable(f"{module} is not installed: ./dev bench --peers installs it")


def distribution_count() -> int:
    """Counts what is installed in this environment."""
    return len({one.name for one in importlib.metadata.distributions(path=sys.path)})


def imported(names: Sequence[str]) -> dict[str, Any]:
    """Sets up by importing modules."""
    return {name: importlib.import_module(name) for name in names}


def files(below: Path | None = None) -> Iterator[str]:
    """Names every file below a folder; of this environment if none is given."""
    for folder, _, names in os.walk(below or sysconfig.get_path("purelib")):
        yield from (os.path.join(folder, name) for name in names)


def forget(paths: Sequence[str]) -> None:
    """Has the kernel drop what it has cached of files; names and attributes of them stay cached.

    Pages that some process has mapped stay too, so that nobody else is disturbed, and no right is needed.
    """
    for path in paths:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
