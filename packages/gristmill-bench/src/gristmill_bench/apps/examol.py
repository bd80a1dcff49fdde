"""A search for molecules in three kinds of calls: quantum chemistry, training of a regression, and predictions.

The application is ExaMol (Ward, 2023) as the function-context paper runs it (Phung et al., *Accelerating
Function-Centric Applications by Discovering, Distributing, and Retaining Reusable Context in Workflow Systems*, section
4.1.2). It simulates the ionisation potential of molecules, fits a forest to the simulated values, predicts shares of
the candidates, and next simulates the molecules with the lowest predictions. Here extended tight binding replaces PM7:
a simulation takes some hundredths of a second, about as much as a fit, and the prediction of a share takes a hundredth.
The libraries that all three kinds of calls need take a second to import, which a context saves. Everything is seeded,
so that every run finds the same molecules.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice, product
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

from pydantic import Field, model_validator

from gristmill_bench.apps.base import App, lacks_screen
from gristmill_bench.engine import Engine
from gristmill_bench.errors import WrongResult
from gristmill_bench.plugins import NONE_IS_A_CHOICE
from gristmill_bench.within import Reuse

GROUPS = ("O", "N", "F", "Cl", "C=O", "C#N", "OC", "SC", "c1ccccc1", "c1ccncc1", "C1CC1", "N(C)C")
CHAINS = tuple("C" * length for length in range(1, 9))
#: Number of chains with a group at one end, and of chains with a group at each end.
_CANDIDATES_MAX = len(CHAINS) * len(GROUPS) * (len(GROUPS) + 3) // 2
#: Parameters of the regression's forest, which one core fits.
TREES, FINGERPRINT_SIZE, SEED = 40, 1024, 7
#: Allowed difference between two machines, in eV.
_TOLERANCE = 1e-4


def molecules() -> Iterator[str]:
    """Yields the SMILES of distinct candidates: chains with one group, then chains with two."""
    yield from (carbons + group for carbons, group in product(CHAINS, GROUPS))
    for carbons, (number, first) in product(CHAINS, enumerate(GROUPS)):
        yield from (f"C({first}){carbons}{second}" for second in GROUPS[number:])


def ready() -> dict[str, Any]:
    """Sets up all three kinds of calls: libraries, each limited to one core, and a generator of fingerprints."""
    names = ("numpy", "rdkit.Chem", "rdkit.Chem.rdFingerprintGenerator", "sklearn.ensemble")
    modules = {name: importlib.import_module(name) for name in names}
    modules["simulation"] = importlib.import_module("molecular_screen.design.simulation")
    importlib.import_module("threadpoolctl").threadpool_limits(1)
    make = modules["rdkit.Chem.rdFingerprintGenerator"].GetMorganGenerator
    return {"modules": modules, "generator": make(radius=2, fpSize=FINGERPRINT_SIZE)}


def simulate(held: Any, smiles: str) -> float:
    """Simulates one molecule and returns its ionisation potential in eV."""
    found = held["modules"]["simulation"].simulate(smiles)
    if found.ionisation_ev is None:
        raise RuntimeError(f"{smiles}: {found.failure}")
    return float(found.ionisation_ev)


def train(held: Any, known: dict[str, float]) -> Any:
    """Fits a forest to the simulated values."""
    forest = held["modules"]["sklearn.ensemble"].RandomForestRegressor(TREES, random_state=SEED)
    return forest.fit(_features(held, tuple(known)), tuple(known.values()))


def predict(held: Any, forest: Any, candidates: Sequence[str]) -> list[float]:
    """Predicts the ionisation potentials of candidates, in eV."""
    if not candidates:
        return []
    return [float(value) for value in forest.predict(_features(held, candidates))]


def _features(held: Any, candidates: Sequence[str]) -> Any:
    """Returns the fingerprint of each molecule, which describes the surroundings of its atoms; one row a molecule."""
    read = held["modules"]["rdkit.Chem"].MolFromSmiles
    rows = [held["generator"].GetFingerprintAsNumPy(read(smiles)) for smiles in candidates]
    return held["modules"]["numpy"].stack(rows)


class Found(NamedTuple):
    """Result of a search."""

    #: Ionisation potentials in eV by SMILES, in the order of their simulation.
    known: dict[str, float]
    #: Molecules that a further round would simulate.
    following: list[str]


class ExaMol(App):
    """A search for molecules with a low ionisation potential, whose three kinds of calls share their imports."""

    needs: ClassVar[tuple[str, ...]] = ("numpy", "rdkit", "scikit-learn", "tblite")

    #: Molecules to choose from.
    candidates: Annotated[int, Field(ge=1, le=_CANDIDATES_MAX)] = 96
    rounds: Annotated[int, Field(ge=1)] = 2
    #: Molecules that a round simulates.
    batch: Annotated[int, Field(ge=1)] = 6
    #: Prediction tasks of a round.
    shares: Annotated[int, Field(ge=1)] = 3
    reuse: Annotated[Reuse, NONE_IS_A_CHOICE] = "memory"

    @classmethod
    def missing(cls) -> str | None:
        """Returns the missing distributions, the missing screen, or why the quantum chemistry cannot run."""
        return super().missing() or lacks_screen(is_simulated=True)

    @model_validator(mode="after")
    def _has_enough(self) -> ExaMol:
        if self.rounds * self.batch > self.candidates:
            raise ValueError(
                f"{self.rounds} rounds of {self.batch} are more than {self.candidates} candidates"
            )
        return self

    def run(self, engine: Engine, folder: Path) -> Found:
        """Returns the simulated values and the molecules of the next round."""
        return self.search(engine.within(ready, reuse=self.reuse).submit)

    def search(self, submit: Callable[..., Any]) -> Found:
        """Searches with calls of ``submit``, whose functions get the value of ``ready()`` before their arguments."""
        candidates = self._molecules()
        known: dict[str, float] = {}
        batch = self._first(candidates)
        for _ in range(self.rounds):
            tasks = [submit(simulate, smiles) for smiles in batch]
            known.update(zip(batch, [task.result() for task in tasks], strict=True))
            forest = submit(train, dict(known))
            free = [smiles for smiles in candidates if smiles not in known]
            shares = [free[number :: self.shares] for number in range(self.shares)]
            predicted = [submit(predict, forest, share) for share in shares]
            batch = self._lowest(chain(*shares), chain(*[task.result() for task in predicted]))
        return Found(known, batch)

    def _molecules(self) -> list[str]:
        return list(islice(molecules(), self.candidates))

    def _first(self, candidates: list[str]) -> list[str]:
        """Returns evenly spaced candidates, so that the first batch has molecules of each kind."""
        return candidates[:: len(candidates) // self.batch][: self.batch]

    def _lowest(self, candidates: Iterable[str], predicted: Iterable[float]) -> list[str]:
        ranked = sorted(zip(predicted, candidates, strict=True))
        return [smiles for _, smiles in ranked[: self.batch]]

    def check(self, result: Found) -> str:
        """Checks each batch against a forest fitted here, and simulates the first and the last molecule again."""
        held, candidates = ready(), self._molecules()
        order = list(result.known)
        if len(order) != self.rounds * self.batch:
            raise WrongResult(f"{len(order)} molecules were simulated in {self.rounds} rounds")
        expected = self._first(candidates)
        for end in range(self.batch, len(order) + 1, self.batch):
            if order[end - self.batch : end] != expected:
                raise WrongResult(f"round {end // self.batch} should have simulated {expected}")
            forest = train(held, {smiles: result.known[smiles] for smiles in order[:end]})
            free = [smiles for smiles in candidates if smiles not in order[:end]]
            expected = self._lowest(free, predict(held, forest, free))
        if result.following != expected:
            raise WrongResult(f"the last forest predicts {expected} best, not {result.following}")
        for smiles in (order[0], order[-1]):
            value = simulate(held, smiles)
            if abs(value - result.known[smiles]) > _TOLERANCE:
                raise WrongResult(f"{smiles} has {value} eV, not {result.known[smiles]}")
        best = min(order, key=lambda smiles: result.known[smiles])
        return f"{len(order)} of {len(candidates)} molecules simulated; {best}: {result.known[best]:.2f} eV"
