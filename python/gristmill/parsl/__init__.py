"""Parsl programs on Gristmill: its data-flow kernel, and its engine as an executor of Parsl's.

* ``install()`` puts Gristmill's kernel in the place of Parsl's for a program that imports ``parsl``;
  ``python -m gristmill.parsl program.py`` does so for a program as it is.
* ``GristmillExecutor`` runs the tasks of Parsl's own kernel on Gristmill's engine.
* ``import gristmill as parsl`` needs no Parsl at all.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from gristmill.parsl.executors.engine import GristmillExecutor
    from gristmill.parsl.installation import install

__all__ = ["GristmillExecutor", "install"]

_HOMES = {
    "GristmillExecutor": "gristmill.parsl.executors.engine",
    "install": "gristmill.parsl.installation",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'gristmill.parsl' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
