"""Load times of modules, recorded by a finder that finds nothing: the import system asks it for each module."""

from __future__ import annotations

import sys
import time

#: Times when modules were last sought, by the clock of ``time.time_ns``. They were read from their files after that.
sought_ns: dict[str, int] = {}
#: Modules that functions import when they are called, and that this process had not loaded.
awaited: set[str] = set()


class _Watch:
    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """Records the time and finds nothing. Renews functions' definitions if a module is awaited or reloaded."""
        if target is None and name in sys.modules:
            return  # this only looks for the module and loads nothing
        sought_ns[name] = time.time_ns()
        if target is not None or name in awaited:
            from gristmill import _native

            _native.modules_changed()


def begin() -> None:
    """Begins to record when modules are loaded."""
    if _Watch not in sys.meta_path:
        sys.meta_path.insert(0, _Watch)
