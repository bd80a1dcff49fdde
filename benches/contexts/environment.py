"""The environment of the rows of contexts: installed distributions, a heavy stack, and uncached files."""

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

#: The imports of a typical data-science program: some 3,000 files.
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
#: The least number of distributions of a heavy environment.
DISTRIBUTIONS_MIN = 100


def needed(*modules: str) -> None:
    """Checks that the modules a row needs are installed. The error says how to install them."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            raise Unavailable(f"{module} is not installed: ./dev bench --peers installs it")


def distribution_count() -> int:
    """Counts the distributions installed in this environment."""
    return len({one.name for one in importlib.metadata.distributions(path=sys.path)})


def imported(names: Sequence[str]) -> dict[str, Any]:
    """Imports the modules. Used as the set-up of a context."""
    return {name: importlib.import_module(name) for name in names}


def files(below: Path | None = None) -> Iterator[str]:
    """Yields every file below a folder, by default of this environment."""
    for folder, _, names in os.walk(below or sysconfig.get_path("purelib")):
        yield from (os.path.join(folder, name) for name in names)


def forget(paths: Sequence[str]) -> None:
    """Makes the kernel drop the cached contents of files. Names and attributes stay cached.

    Pages that a process has mapped stay too, so that other processes are not disturbed and no privilege is needed.
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
