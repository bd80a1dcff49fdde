"""Detection of an installed Parsl and of its modules, without importing it."""

from __future__ import annotations

import functools
import importlib.util
import shlex
import sys
from importlib.machinery import PathFinder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn


def is_parsl_loaded() -> bool:
    """Returns whether this process has imported the package, and not just a folder of that name."""
    return getattr(sys.modules.get("parsl"), "__file__", None) is not None


@functools.cache
def is_parsl_installed() -> bool:
    """Returns whether ``import parsl`` would find the package, and not just a folder of that name."""
    if is_parsl_loaded():
        return True
    spec = importlib.util.find_spec("parsl")
    return spec is not None and spec.origin is not None


@functools.cache
def has_parsl(path: str) -> bool:
    """Returns whether Parsl is installed and has a module ``parsl.<path>``."""
    if not is_parsl_installed():
        return False
    spec = importlib.util.find_spec("parsl")
    for part in path.split("."):
        if spec is None or spec.submodule_search_locations is None:
            return False
        spec = PathFinder.find_spec(part, spec.submodule_search_locations)
    return spec is not None and spec.origin is not None


def missing(name: str, *packages: str) -> type:
    """Makes a substitute for one of Parsl's classes where Parsl is not installed.

    A program may import the class. Making an object of it raises ``OptionalModuleMissing``, which says which packages
    to install, Parsl first.
    """

    def __init__(self: object, *_arguments: Any, **_named: Any) -> None:
        need(f"{name} is a part of Parsl", *packages)

    return type(name, (), {"__init__": __init__, "__doc__": "Cannot be created without Parsl."})


def need(reason: str, *packages: str) -> NoReturn:
    """Raises ``OptionalModuleMissing``: the requested feature needs Parsl, or these packages of Parsl's."""
    from gristmill.parsl._kernel.errors import OptionalModuleMissing

    wanted = packages or ("parsl",)
    raise OptionalModuleMissing(
        ["parsl"], f"{reason}: pip install {' '.join(map(shlex.quote, wanted))}"
    )
