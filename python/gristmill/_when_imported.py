"""Callbacks that run once a module has been imported, or at once if it is loaded: unused modules need not be loaded."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType


class _Finder:
    """Finder that finds watched modules as all other finders do, and calls a function when one is loaded."""

    def __init__(self) -> None:
        self.watched: dict[str, list[Callable[[ModuleType], None]]] = {}

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns the spec of a watched module; ``None`` for all others."""
        if name not in self.watched:
            return None
        # The finders before this one have been asked already.
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                self._wrap(name, spec)
                return spec
        return None

    def _wrap(self, name: str, spec: ModuleSpec) -> None:
        loader = spec.loader
        load = getattr(loader, "exec_module", None)
        if load is None:
            return

        def exec_module(module: ModuleType) -> None:
            load(module)
            for run in self.watched.pop(name, ()):
                run(module)

        try:
            loader.exec_module = exec_module  # type: ignore[method-assign, union-attr]
        except AttributeError:  # a loader that is a class, as those of frozen modules
            return


_finder = _Finder()


def when_imported(name: str, run: Callable[[ModuleType], None]) -> None:
    """Calls ``run`` with a module: at once if it is loaded, otherwise after its import."""
    module = sys.modules.get(name)
    if module is not None:
        run(module)
        return
    _finder.watched.setdefault(name, []).append(run)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
