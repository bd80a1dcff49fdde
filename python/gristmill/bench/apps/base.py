"""What all applications have: a run on an engine, and a look at whether its result is right."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import PrivateAttr

from gristmill.bench.engine import Engine
from gristmill.bench.plugins import Kind, Plugin


class App(Plugin):
    """An application with its sizes."""

    kind: ClassVar[Kind] = "app"
    #: Seconds after which a run is ended for which no time was chosen, where an application may never end.
    run_timeout: ClassVar[float | None] = None

    #: What was prepared, and for which folder.
    _prepared: tuple[Path, Any] | None = PrivateAttr(default=None)

    def prepare(self, folder: Path) -> Any:
        """Makes what its run starts from, with files in the folder; most start from their fields alone.

        A run of the suite does this once its executor is open, as a phase that is not in the makespan: it costs the
        same whatever the executor is, which would only look more alike. It is not done before, since workers that are
        forked would have what it imports for nothing, and others would not.
        """
        return None

    def inputs(self, folder: Path) -> Any:
        """What ``prepare`` has made, which is called if it was not yet."""
        if self._prepared is None or self._prepared[0] != folder:
            self._prepared = (folder, self.prepare(folder))
        return self._prepared[1]

    def __copy__(self) -> Self:
        """Without what was prepared: a copy may get other fields."""
        copied = super().__copy__()
        copied._prepared = None
        return copied

    @abstractmethod
    def run(self, engine: Engine, folder: Path) -> Any:
        """Computes its result with tasks of the engine; files go to the folder."""

    @abstractmethod
    def check(self, result: Any) -> str:
        """Says in a line what the result is; raises ``WrongResult`` if it is wrong."""

    def figures(self, result: Any) -> dict[str, float]:
        """What it has measured itself, by name, with the unit at the end of each; most have nothing."""
        return {}

    def is_harmful(self) -> bool:
        """Whether it kills processes: it is run in namespaces of its own then, or not at all."""
        return False

    def task_timeout(self) -> float | None:
        """Seconds that it wants no task to take; executors that can end tasks are told so."""
        return None
