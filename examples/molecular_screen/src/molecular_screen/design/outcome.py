"""The result of a design loop: its rounds, its error, and the result of random choices for comparison."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from molecular_screen.design.learning import Choice
from molecular_screen.design.simulation import Simulation

BEST_COUNT = 10
"""The number of molecules whose mean is compared, so that one lucky hit does not decide."""

HIGH_SHARE = 0.1
"""The share of the random simulations that counts as high."""


@dataclass(frozen=True)
class Plan:
    """The number of simulations: a first random batch, then `rounds` of `batch` molecules."""

    rounds: int = 5
    batch: int = 16
    seed: int = 0

    @property
    def first_count(self) -> int:
        """The number of random molecules that the first surrogate learns from."""
        return 2 * self.batch


@dataclass(frozen=True)
class Round:
    """One batch: the chosen molecules and their simulations, in the same order."""

    number: int
    chosen: list[Choice]
    simulations: list[Simulation]
    ended_s: float

    @property
    def error_ev(self) -> float | None:
        """RMSE of the surrogate on this batch, predicted before any of it was simulated."""
        squares = [
            (choice.predicted_ev - each.ionisation_ev) ** 2
            for choice, each in zip(self.chosen, self.simulations, strict=True)
            if choice.predicted_ev is not None and each.ionisation_ev is not None
        ]
        return math.sqrt(sum(squares) / len(squares)) if squares else None

    @property
    def mean_ev(self) -> float | None:
        """The mean of the batch."""
        values = values_of(self.simulations)
        return sum(values) / len(values) if values else None


@dataclass(frozen=True)
class Design:
    """The facts about a loop that the report shows; times in seconds."""

    plan: Plan
    candidate_count: int
    rounds: list[Round]
    random: list[Simulation]
    workers: int
    task_count: int
    loop_s: float

    @cached_property
    def simulations(self) -> list[Simulation]:
        """The simulations of the loop, in the order of its choices."""
        return [each for batch in self.rounds for each in batch.simulations]

    @property
    def failures(self) -> list[Simulation]:
        """The simulations without a value, each molecule once."""
        return list({each.smiles: each for each in failed(self.simulations + self.random)}.values())

    @property
    def high_ev(self) -> float:
        """The value that the best tenth of the random simulations reaches."""
        ranked = sorted(values_of(self.random), reverse=True)
        return ranked[int(len(ranked) * HIGH_SHARE)] if ranked else math.inf

    @property
    def quantum_share(self) -> float:
        """The share of the workers' time in the loop that the quantum chemistry used."""
        return sum(each.quantum_s for each in self.simulations) / (self.loop_s * self.workers)

    def high_count(self, simulations: Sequence[Simulation]) -> int:
        """Returns the number of simulations above `high_ev`."""
        return sum(value > self.high_ev for value in values_of(simulations))

    def best_until(self, number: int) -> float | None:
        """Returns the best value found up to and including a round."""
        found = [each for batch in self.rounds[: number + 1] for each in batch.simulations]
        return max(values_of(found), default=None)


def values_of(simulations: Sequence[Simulation]) -> list[float]:
    """Returns the values in eV, without the failures."""
    return [each.ionisation_ev for each in simulations if each.ionisation_ev is not None]


def failed(simulations: Sequence[Simulation]) -> list[Simulation]:
    """Returns the simulations that have no value."""
    return [each for each in simulations if each.ionisation_ev is None]


def best_mean_ev(simulations: Sequence[Simulation]) -> float:
    """Returns the mean of the ten best values, or of all if there are fewer."""
    best = sorted(values_of(simulations), reverse=True)[:BEST_COUNT]
    return sum(best) / len(best) if best else math.nan
