"""Whether Parsl is installed, without importing it."""

from __future__ import annotations

import functools
import importlib.util
import sys


@functools.cache
def is_parsl_installed() -> bool:
    """Whether ``import parsl`` would find the package, and not just a folder of that name."""
    if "parsl" in sys.modules:
        return True
    spec = importlib.util.find_spec("parsl")
    return spec is not None and spec.origin is not None
