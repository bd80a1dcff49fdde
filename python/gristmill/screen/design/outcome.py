"""What a design loop found: its rounds, its error, and what chance would have found instead."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from gristmill.screen.design.learning import Choice
from gristmill.screen.design.simulation import Simulation

BEST_COUNT = 10
"""Molecules whose mean is compared: one lucky hit then does not decide."""

HIGH_SHARE = 0.1
"""The part of the random simulations that counts as high."""


@dataclass(frozen=True)
class Plan:
    """How much is simulated: a first batch at random, then `rounds` of `batch` molecules."""

    rounds: int = 5
    batch: int = 16
    seed: int = 0

    @property
    def first_count(self) -> int:
        """Random molecules that the first surrogate learns from."""
        return 2 * self.batch


@dataclass(frozen=True)
class Round:
    """One batch: what was chosen, and what the simulation made of each, in the same order."""

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
    """All that the report says of a loop; times in seconds."""

    plan: Plan
    candidate_count: int
    rounds: list[Round]
    random: list[Simulation]
    workers: int
    task_count: int
    loop_s: float

    @cached_property
    def simulations(self) -> list[Simulation]:
        """What the loop simulated, in the order of its choices."""
        return [each for batch in self.rounds for each in batch.simulations]

    @property
    def failures(self) -> list[Simulation]:
        """Simulations without a value, each molecule once."""
        return list({each.smiles: each for each in failed(self.simulations + self.random)}.values())

    @property
    def high_ev(self) -> float:
        """What the best tenth of the random simulations reaches."""
        ranked = sorted(values_of(self.random), reverse=True)
        return ranked[int(len(ranked) * HIGH_SHARE)] if ranked else math.inf

    @property
    def quantum_share(self) -> float:
        """The part of the workers' time in the loop that went into the quantum chemistry."""
        return sum(each.quantum_s for each in self.simulations) / (self.loop_s * self.workers)

    def high_count(self, simulations: Sequence[Simulation]) -> int:
        """How many lie above what the best tenth of the random ones reaches."""
        return sum(value > self.high_ev for value in values_of(simulations))

    def best_until(self, number: int) -> float | None:
        """The best value found up to and including a round."""
        found = [each for batch in self.rounds[: number + 1] for each in batch.simulations]
        return max(values_of(found), default=None)


def values_of(simulations: Sequence[Simulation]) -> list[float]:
    """The values in eV, without the failures."""
    return [each.ionisation_ev for each in simulations if each.ionisation_ev is not None]


def failed(simulations: Sequence[Simulation]) -> list[Simulation]:
    """The simulations that have no value."""
    return [each for each in simulations if each.ionisation_ev is None]


def best_mean_ev(simulations: Sequence[Simulation]) -> float:
    """The mean of the ten best values, of all if there are fewer."""
    best = sorted(values_of(simulations), reverse=True)[:BEST_COUNT]
    return sum(best) / len(best) if best else math.nan
