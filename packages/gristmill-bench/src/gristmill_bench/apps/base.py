"""Base class of all applications: a run on an engine, and a check of its result."""

from __future__ import annotations

from abc import abstractmethod
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import PrivateAttr

from gristmill_bench.engine import Engine
from gristmill_bench.plugins import Kind, Plugin


def lacks_screen(is_simulated: bool = False) -> str | None:
    """Returns why the example program ``molecular_screen``, or its quantum chemistry, is missing, or ``None``.

    The program is no distribution of a package index, so ``needs`` cannot name it.
    """
    if find_spec("molecular_screen") is None:
        return "pip install --no-deps ./examples/molecular_screen, in a checkout of gristmill"
    if is_simulated:
        from molecular_screen.design import lacking

        return lacking()
    return None


class App(Plugin):
    """An application with the sizes of its run."""

    kind: ClassVar[Kind] = "app"
    #: Limit of a run in seconds if none was chosen, for applications that may never end.
    run_timeout: ClassVar[float | None] = None

    #: Folder and result of the last ``prepare``.
    _prepared: tuple[Path, Any] | None = PrivateAttr(default=None)

    def prepare(self, folder: Path) -> Any:
        """Makes the inputs of a run, with files in the folder; most applications need only their fields.

        A run of the suite calls this once its executor is open, as a phase that the makespan excludes. The cost of this
        phase is the same for every executor, so that counting it would make executors look more alike. The call is not
        made before the executor is open, because forked workers would then inherit the imported modules and other
        workers would not.
        """
        return None

    def inputs(self, folder: Path) -> Any:
        """Returns the result of ``prepare`` for the folder, and calls ``prepare`` if it has not run yet."""
        if self._prepared is None or self._prepared[0] != folder:
            self._prepared = (folder, self.prepare(folder))
        return self._prepared[1]

    def __copy__(self) -> Self:
        """Copies the application without its prepared inputs, because a copy may get other fields."""
        copied = super().__copy__()
        copied._prepared = None
        return copied

    @abstractmethod
    def run(self, engine: Engine, folder: Path) -> Any:
        """Computes the result with tasks of the engine; files go to the folder."""

    @abstractmethod
    def check(self, result: Any) -> str:
        """Describes the result in one line; raises ``WrongResult`` if it is wrong."""

    def figures(self, result: Any) -> dict[str, float]:
        """Returns the application's own measurements by name, each name ending in its unit; none by default."""
        return {}

    def is_harmful(self) -> bool:
        """Returns whether it kills processes; such an application runs in namespaces of its own or not at all."""
        return False

    def task_timeout(self) -> float | None:
        """Returns the seconds that a task may take, or ``None``; executors that can end tasks get this limit."""
        return None
