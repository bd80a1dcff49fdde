"""A screen of many molecules by a model: fingerprints and predictions, some molecules a task.

This is the inference of ParslDock, of which the thesis *Towards Fine-grained Parallelism in Parallel and Distributed
Python Libraries* measures 100,000 molecules in batches of up to 1,000 (section 2.4.4, figure 2.12). Molecules,
fingerprints and model are those of ``molecular_screen``: real molecules first, then molecules made from them by
reaction rules, scored by ridge regressions for solubility and hydration. A molecule costs about 200 us. Each worker
reads the model once, which takes some milliseconds, and loads the libraries in half a second.
"""

from __future__ import annotations

from itertools import chain, islice
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

from pydantic import Field

from gristmill_bench.apps.base import App, lacks_screen
from gristmill_bench.engine import Engine
from gristmill_bench.errors import BenchError, WrongResult
from gristmill_bench.plugins import NONE_IS_A_CHOICE
from gristmill_bench.within import Reuse

if TYPE_CHECKING:
    from molecular_screen.data import Property
    from molecular_screen.score import Model, Score
    from molecular_screen.surrogate import Surrogate

#: Molecules that the check scores again.
_SAMPLE = 200


def loaded(path: str) -> None:
    """Sets a worker up: reads the model."""
    import numpy as np

    from molecular_screen.score import Model, load

    with np.load(path) as arrays:
        load(Model(*(arrays[name] for name in Model._fields)))


def score_batch(_ready: None, batch: list[str]) -> list[Score | str]:
    """Scores some molecules; an unreadable molecule gets the reason instead of a score."""
    from molecular_screen.score import score

    return [score(smiles) for smiles in batch]


class Screened(NamedTuple):
    """Screened molecules, their model, and a score or a reason for each molecule, in their order."""

    molecules: list[str]
    model: Model
    scores: list[Score | str]
    #: Seconds from the first submission to the last result.
    seconds: float
    #: Seconds of each round after the first, by the molecules of a task.
    further: dict[int, float]


class MolScreen(App):
    """Predictions for many molecules: fingerprint and regression, ``batch`` molecules a task."""

    needs: ClassVar[tuple[str, ...]] = ("datamol", "numpy", "rdkit")

    molecules: Annotated[int, Field(ge=1)] = 10_000
    batch: Annotated[int, Field(ge=1)] = 100
    #: Molecules a task of further rounds, in which workers have loaded all that they need.
    further: tuple[Annotated[int, Field(ge=1)], ...] = ()
    seed: int = 1
    reuse: Annotated[Reuse, NONE_IS_A_CHOICE] = "memory"

    @classmethod
    def missing(cls) -> str | None:
        """Returns the missing distributions, or how to install the screen."""
        return super().missing() or lacks_screen()

    def prepare(self, folder: Path) -> tuple[Path, Model, list[str]]:
        """Trains the model; returns its file, the model itself, and the SMILES of the molecules."""
        import numpy as np

        from molecular_screen import data, library, surrogate

        measured = [data.solubility(), data.hydration()]
        model = surrogate.combined([_fitted(one) for one in measured])
        made = library.open_library(measured, self.seed).molecules(self.molecules)
        found = [one.smiles for one in made]
        if len(found) < self.molecules:
            raise BenchError(f"the rules give only {len(found)} molecules, not {self.molecules}")
        path = folder.absolute() / "model.npz"
        arrays: dict[str, Any] = model._asdict()
        np.savez(path, **arrays)
        return path, model, found

    def run(self, engine: Engine, folder: Path) -> Screened:
        """Returns the scores."""
        path, model, molecules = self.inputs(folder)
        inside = engine.within(loaded, str(path), reuse=self.reuse)
        seconds, scores = _screened(inside, molecules, self.batch)
        further: dict[int, float] = {}
        for batch in self.further:
            further[batch], again = _screened(inside, molecules, batch)
            if again != scores:
                raise WrongResult(f"{batch} molecules a task score other than {self.batch}")
        return Screened(molecules, model, scores, seconds, further)

    def check(self, result: Screened) -> str:
        """Checks that each molecule has a score or a reason, and scores a sample again in this process."""
        from molecular_screen.score import load, score

        molecules = result.molecules
        if not len(result.scores) == len(molecules) == self.molecules:
            raise WrongResult(f"{len(result.scores)} scores of {self.molecules} molecules")
        load(result.model)
        for number in range(0, len(molecules), max(1, len(molecules) // _SAMPLE)):
            expected, found = score(molecules[number]), result.scores[number]
            if expected != found:
                raise WrongResult(f"{molecules[number]} scores {expected}, not {found}")
        unreadable = sum(isinstance(one, str) for one in result.scores)
        return (
            f"{len(molecules)} molecules, {unreadable} of them unreadable, in {result.seconds:.2f} s: "
            f"{len(molecules) / result.seconds:,.0f}/s"
        )

    def figures(self, result: Screened) -> dict[str, float]:
        """Returns the seconds of each round, without the time to make molecules and model."""
        further = {f"screening_by_{one}_s": seconds for one, seconds in result.further.items()}
        return {"screening_s": result.seconds} | further


def _screened(engine: Engine, molecules: list[str], batch: int) -> tuple[float, list[Score | str]]:
    """Screens all molecules; returns the seconds and the scores."""
    begun = perf_counter()
    rest = iter(molecules)
    batches = iter(lambda: list(islice(rest, batch)), [])
    tasks = [engine.submit(score_batch, one) for one in batches]
    scores = list(chain.from_iterable(task.result() for task in tasks))
    return perf_counter() - begun, scores


def _fitted(source: Property) -> Surrogate:
    """Fits a regression without estimates of its error, which would take longer than the fit."""
    from molecular_screen import surrogate

    measured = surrogate.measured(source)
    line = surrogate.fit(measured.counts, measured.values)
    return surrogate.Surrogate(measured, line.weights, line.intercept, [])
