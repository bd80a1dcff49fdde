"""Executors: where the kernel sends tasks whose dependencies are there.

``GristmillExecutor`` runs them in worker processes of this machine, and is an executor of Parsl's own kernel too;
``ThreadPoolExecutor`` runs them in threads of this process.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from gristmill.parsl.executors.base import ParslExecutor
    from gristmill.parsl.executors.engine import GristmillExecutor
    from gristmill.parsl.executors.threads import ThreadPoolExecutor

__all__ = ["GristmillExecutor", "ParslExecutor", "ThreadPoolExecutor"]

_HOME_OF = {"GristmillExecutor": "engine", "ParslExecutor": "base", "ThreadPoolExecutor": "threads"}


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
