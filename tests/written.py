"""Modules that tests write, load, edit, and reload."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gristmill import Executor
from gristmill._errors import StaleModuleError


class Folder:
    """A folder on the path, whose modules are written and reloaded."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.written: set[str] = set()
        self._seconds = 0

    def write(self, name: str, text: str) -> None:
        """Writes a module, each time with a later second in its time, as when a person edits it."""
        file = self.path / f"{name.replace('.', '/')}.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        self._seconds += 2
        time = file.stat().st_mtime + self._seconds
        os.utime(file, (time, time))
        self.written.add(name)
        importlib.invalidate_caches()

    def load(self, name: str) -> Any:
        return importlib.import_module(name)


def outcome(executor: Executor, function: Callable[..., Any]) -> Any:
    """Returns the result of a call, or ``"stale"`` if its module is stale."""
    error = executor.submit(function).exception()
    if isinstance(error, StaleModuleError):
        return "stale"
    return executor.submit(function).result()
