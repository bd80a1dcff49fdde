"""Design of molecules by active learning: simulate some, learn from them, choose the next ones (TaPS, section III-E).

The application is Colmena's (Ward et al., *Colmena: Scalable Machine-Learning-Based Steering of Ensemble Simulations
for High Performance Computing*, 2021): a search for real molecules with the highest ionisation potential. A simulation
is that of ``molecular_screen``: extended tight binding at a geometry of its own, which takes 20 to 200 ms. The model is
a committee of the screen's regressions, each trained on its own draw of the simulations (Breiman, *Bagging predictors*,
1996); members differ where they know little. Training a member takes some milliseconds, and predicting a molecule some
hundreds of microseconds.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, NamedTuple

from pydantic import Field, model_validator

from gristmill_bench.apps.base import App, lacks_screen
from gristmill_bench.engine import Engine
from gristmill_bench.errors import BenchError, WrongResult

if TYPE_CHECKING:
    from molecular_screen.design.learning import Line
    from molecular_screen.design.simulation import Simulation

#: Allowed difference between two machines, in eV.
_TOLERANCE = 1e-4


class Prediction(NamedTuple):
    """Prediction of a committee for a molecule: mean and standard deviation of its members, in eV."""

    mean_ev: float
    std_ev: float


def on_one_core() -> None:
    """Sets a worker up: loads its libraries and limits each to one core."""
    import threadpoolctl

    import molecular_screen.design.learning
    import molecular_screen.design.simulation  # noqa: F401

    threadpoolctl.threadpool_limits(1)


def simulate(_ready: None, smiles: str) -> Simulation:
    """Simulates one molecule; if the simulation fails, the result has the reason."""
    from molecular_screen.design import simulation

    return simulation.simulate(smiles)


def train(_ready: None, simulated: Sequence[Simulation], seed: int) -> Line:
    """Trains a committee member on a draw with replacement of as many simulations as there are."""
    from molecular_screen.design import learning

    return learning.train(random.Random(seed).choices(simulated, k=len(simulated)))


def predict(_ready: None, share: Sequence[str], *committee: Line) -> list[Prediction]:
    """Predicts some molecules."""
    from molecular_screen.design import learning

    found = []
    for environments in map(learning.environments, share):
        values = [learning.infer(line, environments) for line in committee]
        found.append(Prediction(fmean(values), pstdev(values)))
    return found


class Round(NamedTuple):
    """One batch: the predictions before it, none for the first batch, and its simulations."""

    predicted: dict[str, Prediction]
    simulations: list[Simulation]


class MolDesign(App):
    """The molecules with the highest ionisation potential, by quantum chemistry and a model that learns from it."""

    needs: ClassVar[tuple[str, ...]] = ("datamol", "numpy", "rdkit", "tblite")

    #: Real molecules to choose from.
    candidates: Annotated[int, Field(ge=2, le=800)] = 500
    #: Molecules that are drawn at random first, that are simulated in total, and that are simulated after each
    #: training.
    initial: Annotated[int, Field(ge=2)] = 16
    simulations: Annotated[int, Field(ge=2)] = 64
    batch: Annotated[int, Field(ge=1)] = 16
    #: Order of the choice: the best mean, or the upper confidence bound, which is the mean and ``kappa`` standard
    #: deviations.
    choice: Literal["greedy", "ucb"] = "ucb"
    kappa: Annotated[float, Field(ge=0)] = 1.0
    committee: Annotated[int, Field(ge=1)] = 8
    #: Molecules that a task predicts.
    share: Annotated[int, Field(ge=1)] = 100
    seed: int = 1

    @classmethod
    def missing(cls) -> str | None:
        """Returns the missing distributions, the missing screen, or why the quantum chemistry cannot run."""
        return super().missing() or lacks_screen(is_simulated=True)

    @model_validator(mode="after")
    def _has_enough(self) -> MolDesign:
        if not self.initial <= self.simulations <= self.candidates:
            raise ValueError(
                f"{self.initial} initial of {self.simulations} simulations of {self.candidates} candidates: "
                "each number may be the next one at most"
            )
        return self

    def molecules(self) -> list[str]:
        """Returns the SMILES of the candidates: small, distinct molecules of the screen's data."""
        from molecular_screen import data
        from molecular_screen.design.candidates import candidates

        real = data.real_molecules([data.solubility(), data.hydration()])
        found = candidates(real, self.candidates)
        if len(found) < self.candidates:
            raise BenchError(f"there are only {len(found)} candidates, not {self.candidates}")
        return found

    def prepare(self, folder: Path) -> list[str]:
        """Reads the molecules."""
        return self.molecules()

    def run(self, engine: Engine, folder: Path) -> list[Round]:
        """Returns the rounds."""
        inside = engine.within(on_one_core)
        molecules: list[str] = self.inputs(folder)
        rounds: list[Round] = []
        predicted: dict[str, Prediction] = {}
        chosen = self._first(molecules)
        while chosen:
            tasks = [inside.submit(simulate, smiles) for smiles in chosen]
            rounds.append(Round(predicted, [task.result() for task in tasks]))
            left = self.simulations - sum(len(one.simulations) for one in rounds)
            if not left:
                break
            known = list(chain.from_iterable(one.simulations for one in rounds))
            lines = [inside.submit(train, known, seed) for seed in self._seeds(len(rounds))]
            gone = {one.smiles for one in known}
            free = [smiles for smiles in molecules if smiles not in gone]
            shares = [free[at : at + self.share] for at in range(0, len(free), self.share)]
            found = [inside.submit(predict, share, *lines) for share in shares]
            values = chain.from_iterable(task.result() for task in found)
            predicted = dict(zip(free, values, strict=True))
            chosen = self._best(predicted, min(left, self.batch))
        return rounds

    def _first(self, molecules: list[str]) -> list[str]:
        return random.Random(self.seed).sample(molecules, self.initial)

    def _seeds(self, round: int) -> Iterable[int]:
        return range(round * self.committee, (round + 1) * self.committee)

    def _best(self, predicted: dict[str, Prediction], count: int) -> list[str]:
        kappa = self.kappa if self.choice == "ucb" else 0.0

        def bound(smiles: str) -> float:
            return predicted[smiles].mean_ev + kappa * predicted[smiles].std_ev

        return sorted(predicted, key=bound, reverse=True)[:count]

    def check(self, result: list[Round]) -> str:
        """Checks that batches are the ones predicted best, and repeats some predictions and simulations here."""
        molecules = self.molecules()
        self._check_choices(result, molecules)
        simulated = [one for each in result for one in each.simulations]
        for one in (simulated[0], simulated[-1]):
            self._check_simulation(one)
        values = [[one.ionisation_ev or 0.0 for one in each.simulations] for each in result]
        best, by_chance = max(chain(*values)), max(values[0])
        return (
            f"{len(simulated)} of {len(molecules)} molecules simulated; the best has {best:.2f} eV, "
            f"of {self.initial} at random {by_chance:.2f}"
        )

    def _check_choices(self, result: list[Round], molecules: list[str]) -> None:
        batches = [[one.smiles for one in each.simulations] for each in result]
        known = [smiles for batch in batches for smiles in batch]
        if not len(known) == len(set(known)) == self.simulations or batches[0] != self._first(
            molecules
        ):
            raise WrongResult(f"{len(known)} simulations of {len(set(known))} molecules, or others")
        for number in range(1, len(result)):
            before = [smiles for batch in batches[:number] for smiles in batch]
            predicted = result[number].predicted
            if set(predicted) != set(molecules) - set(before):
                raise WrongResult(f"batch {number} was not chosen from all that were left")
            if batches[number] != self._best(predicted, len(batches[number])):
                raise WrongResult(f"batch {number} is not the one that was predicted best")
            past = [one for each in result[:number] for one in each.simulations]
            lines = [train(None, past, seed) for seed in self._seeds(number)]
            sample = list(predicted)[:: max(1, len(predicted) // 10)]
            for smiles, here in zip(sample, predict(None, sample, *lines), strict=True):
                there = predicted[smiles]
                if max(abs(here[0] - there[0]), abs(here[1] - there[1])) > _TOLERANCE:
                    raise WrongResult(f"{smiles} is predicted {here}, not {there}")

    def _check_simulation(self, one: Simulation) -> None:
        here, there = simulate(None, one.smiles).ionisation_ev, one.ionisation_ev
        is_same = here is there or (
            here is not None and there is not None and abs(here - there) <= _TOLERANCE
        )
        if not is_same:
            raise WrongResult(f"{one.smiles} has {here} eV, not {there}")
