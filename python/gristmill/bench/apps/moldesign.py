"""Design of molecules by active learning: simulate some, learn from them, choose what comes next (TaPS, section III-E).

The application is Colmena's (Ward et al., *Colmena: Scalable Machine-Learning-Based Steering of Ensemble Simulations
for High Performance Computing*, 2021): real molecules with the highest ionisation potential are looked for. A
simulation is the screen's, extended tight binding at a geometry of its own, and takes 20 to 200 ms; the model is a
committee of the screen's regressions, each trained on its own draw of what was simulated (Breiman, *Bagging
predictors*, 1996), whose members differ where they know little. A member is trained in some milliseconds, and a
molecule predicted in some hundreds of microseconds.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, NamedTuple

from pydantic import Field, model_validator

from gristmill.bench.apps.base import App
from gristmill.bench.engine import Engine
from gristmill.bench.errors import BenchError, WrongResult

if TYPE_CHECKING:
    from gristmill.screen.design.learning import Line
    from gristmill.screen.design.simulation import Simulation

#: eV, between two machines.
_TOLERANCE = 1e-4


class Prediction(NamedTuple):
    """What a committee says of a molecule: mean and standard deviation of its members, in eV."""

    mean_ev: float
    std_ev: float


def on_one_core() -> None:
    """Sets a worker up: its libraries are loaded, and use one core each."""
    import threadpoolctl

    import gristmill.screen.design.learning
    import gristmill.screen.design.simulation  # noqa: F401

    threadpoolctl.threadpool_limits(1)


def simulate(_ready: None, smiles: str) -> Simulation:
    """Simulates one molecule; a molecule that cannot be is told with the reason."""
    from gristmill.screen.design import simulation

    return simulation.simulate(smiles)


def train(_ready: None, simulated: Sequence[Simulation], seed: int) -> Line:
    """Trains a member of the committee on as many simulations as there are, drawn with replacement."""
    from gristmill.screen.design import learning

    return learning.train(random.Random(seed).choices(simulated, k=len(simulated)))


def predict(_ready: None, share: Sequence[str], *committee: Line) -> list[Prediction]:
    """Predicts some molecules."""
    from gristmill.screen.design import learning

    found = []
    for environments in map(learning.environments, share):
        values = [learning.infer(line, environments) for line in committee]
        found.append(Prediction(fmean(values), pstdev(values)))
    return found


class Round(NamedTuple):
    """One batch: what was predicted before, nothing of the first one, and what was simulated."""

    predicted: dict[str, Prediction]
    simulations: list[Simulation]


class MolDesign(App):
    """The molecules with the highest ionisation potential, by quantum chemistry and a model that learns from it."""

    needs: ClassVar[tuple[str, ...]] = ("datamol", "numpy", "rdkit", "tblite")

    #: Real molecules that are chosen from.
    candidates: Annotated[int, Field(ge=2, le=800)] = 500
    #: Molecules that are drawn at random first, and are simulated in all; a batch of them after each training.
    initial: Annotated[int, Field(ge=2)] = 16
    simulations: Annotated[int, Field(ge=2)] = 64
    batch: Annotated[int, Field(ge=1)] = 16
    #: The best mean, or the upper confidence bound: the mean and ``kappa`` standard deviations.
    choice: Literal["greedy", "ucb"] = "ucb"
    kappa: Annotated[float, Field(ge=0)] = 1.0
    committee: Annotated[int, Field(ge=1)] = 8
    #: Molecules that a task predicts.
    share: Annotated[int, Field(ge=1)] = 100
    seed: int = 1

    @classmethod
    def missing(cls) -> str | None:
        """What is not installed, or why the quantum chemistry cannot be imported."""
        from gristmill.screen.design import lacking

        return super().missing() or lacking()

    @model_validator(mode="after")
    def _has_enough(self) -> MolDesign:
        if not self.initial <= self.simulations <= self.candidates:
            raise ValueError(
                f"{self.initial} initial of {self.simulations} simulations of {self.candidates} candidates: "
                "each number may be the next one at most"
            )
        return self

    def molecules(self) -> list[str]:
        """The SMILES of the candidates: small ones of the screen's data, all different."""
        from gristmill.screen import data
        from gristmill.screen.design.candidates import candidates

        real = data.real_molecules([data.solubility(), data.hydration()])
        found = candidates(real, self.candidates)
        if len(found) < self.candidates:
            raise BenchError(f"there are only {len(found)} candidates, not {self.candidates}")
        return found

    def prepare(self, folder: Path) -> list[str]:
        """Reads the molecules."""
        return self.molecules()

    def run(self, engine: Engine, folder: Path) -> list[Round]:
        """Gives its rounds."""
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
        """Batches are those predicted best, predictions those of a committee trained here, and samples the same."""
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
