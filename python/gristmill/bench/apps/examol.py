"""A search for molecules in three kinds of calls: quantum chemistry, a regression that learns from it, predictions.

ExaMol (Ward, 2023) as the function-context paper runs it (Phung et al., *Accelerating Function-Centric Applications by
Discovering, Distributing, and Retaining Reusable Context in Workflow Systems*, section 4.1.2): the ionisation potential
of a molecule is simulated, a forest is fitted to what was simulated, and a share of the candidates is predicted; those
with the lowest predictions are simulated next. Here extended tight binding takes the place of PM7: some hundredths of a
second for each molecule, about as much as a fit; a share is predicted in a hundredth. The libraries that all three
need take a second to import, which is what a context saves. Everything is seeded: the same molecules are found always.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice, product
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

from pydantic import Field, model_validator

from gristmill.bench.apps.base import App
from gristmill.bench.engine import Engine
from gristmill.bench.errors import WrongResult
from gristmill.bench.plugins import NONE_IS_A_CHOICE
from gristmill.bench.within import Reuse

GROUPS = ("O", "N", "F", "Cl", "C=O", "C#N", "OC", "SC", "c1ccccc1", "c1ccncc1", "C1CC1", "N(C)C")
CHAINS = tuple("C" * length for length in range(1, 9))
#: Chains with a group at one end, and with one at each.
_CANDIDATES_MAX = len(CHAINS) * len(GROUPS) * (len(GROUPS) + 3) // 2
#: Of the regression's forest, which is fitted by one core.
TREES, FINGERPRINT_SIZE, SEED = 40, 1024, 7
#: eV, between two machines.
_TOLERANCE = 1e-4


def molecules() -> Iterator[str]:
    """The SMILES of the candidates, none of them twice: chains with one group, then with two."""
    yield from (carbons + group for carbons, group in product(CHAINS, GROUPS))
    for carbons, (number, first) in product(CHAINS, enumerate(GROUPS)):
        yield from (f"C({first}){carbons}{second}" for second in GROUPS[number:])


def ready() -> dict[str, Any]:
    """Sets up all three kinds of calls: libraries, of which each uses one core, and a maker of fingerprints."""
    names = ("numpy", "rdkit.Chem", "rdkit.Chem.rdFingerprintGenerator", "sklearn.ensemble")
    modules = {name: importlib.import_module(name) for name in names}
    modules["simulation"] = importlib.import_module("gristmill.screen.design.simulation")
    importlib.import_module("threadpoolctl").threadpool_limits(1)
    make = modules["rdkit.Chem.rdFingerprintGenerator"].GetMorganGenerator
    return {"modules": modules, "generator": make(radius=2, fpSize=FINGERPRINT_SIZE)}


def simulate(held: Any, smiles: str) -> float:
    """Simulates one molecule; gives its ionisation potential in eV."""
    found = held["modules"]["simulation"].simulate(smiles)
    if found.ionisation_ev is None:
        raise RuntimeError(f"{smiles}: {found.failure}")
    return float(found.ionisation_ev)


def train(held: Any, known: dict[str, float]) -> Any:
    """Fits a forest to what was simulated."""
    forest = held["modules"]["sklearn.ensemble"].RandomForestRegressor(TREES, random_state=SEED)
    return forest.fit(_features(held, tuple(known)), tuple(known.values()))


def predict(held: Any, forest: Any, candidates: Sequence[str]) -> list[float]:
    """Predicts the ionisation potentials of candidates, in eV."""
    if not candidates:
        return []
    return [float(value) for value in forest.predict(_features(held, candidates))]


def _features(held: Any, candidates: Sequence[str]) -> Any:
    """Describes each molecule by the surroundings of its atoms."""
    read = held["modules"]["rdkit.Chem"].MolFromSmiles
    rows = [held["generator"].GetFingerprintAsNumPy(read(smiles)) for smiles in candidates]
    return held["modules"]["numpy"].stack(rows)


class Found(NamedTuple):
    """What a search has found."""

    #: eV, by SMILES, in the order of their simulation.
    known: dict[str, float]
    #: What a further round would simulate.
    following: list[str]


class ExaMol(App):
    """A search for molecules of a low ionisation potential, whose three kinds of calls share what they import."""

    needs: ClassVar[tuple[str, ...]] = ("numpy", "rdkit", "scikit-learn", "tblite")

    #: Molecules that are chosen from.
    candidates: Annotated[int, Field(ge=1, le=_CANDIDATES_MAX)] = 96
    rounds: Annotated[int, Field(ge=1)] = 2
    #: Molecules that are simulated in a round.
    batch: Annotated[int, Field(ge=1)] = 6
    #: Tasks that predict, in a round.
    shares: Annotated[int, Field(ge=1)] = 3
    reuse: Annotated[Reuse, NONE_IS_A_CHOICE] = "memory"

    @classmethod
    def missing(cls) -> str | None:
        """What is not installed, or why the quantum chemistry cannot be imported."""
        from gristmill.screen.design import lacking

        return super().missing() or lacking()

    @model_validator(mode="after")
    def _has_enough(self) -> ExaMol:
        if self.rounds * self.batch > self.candidates:
            raise ValueError(
                f"{self.rounds} rounds of {self.batch} are more than {self.candidates} candidates"
            )
        return self

    def run(self, engine: Engine, folder: Path) -> Found:
        """Gives what was simulated, and what would be next."""
        return self.search(engine.within(ready, reuse=self.reuse).submit)

    def search(self, submit: Callable[..., Any]) -> Found:
        """Searches with calls that are submitted so; functions get what ``ready`` returned before their arguments."""
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
        """Every so many, so that there is something of each kind to learn from."""
        return candidates[:: len(candidates) // self.batch][: self.batch]

    def _lowest(self, candidates: Iterable[str], predicted: Iterable[float]) -> list[str]:
        ranked = sorted(zip(predicted, candidates, strict=True))
        return [smiles for _, smiles in ranked[: self.batch]]

    def check(self, result: Found) -> str:
        """Each batch is the one that a forest fitted here chooses; the first and the last simulation find the same."""
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
