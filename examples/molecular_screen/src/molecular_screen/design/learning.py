"""The surrogate: it learns from simulations and chooses what to simulate next, the cheap side of the loop.

The surrogate is the screen's ridge regression on atom environments, fitted anew in each round; the next batch has the
best predictions. On a few thousand candidates that finds nearly all of the best ones, and requesting molecules with
uncertain predictions costs more than it teaches.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rdkit import Chem

from molecular_screen.design.simulation import Simulation
from molecular_screen.score import FINGERPRINT_SIZE, counts
from molecular_screen.surrogate import fit


class Line(NamedTuple):
    """A trained surrogate: weights [FINGERPRINT_SIZE] in eV a count, intercept in eV."""

    weights: NDArray[np.float64]
    intercept: float


class Choice(NamedTuple):
    """A molecule to simulate, and its predicted value in eV; `None` if it was drawn at random."""

    smiles: str
    predicted_ev: float | None


def environments(smiles: str) -> dict[int, int]:
    """Counts the atom environments of a candidate by column."""
    return counts(Chem.MolFromSmiles(smiles))


def train(simulations: Iterable[Simulation]) -> Line:
    """Fits the surrogate to all simulations that gave a value; without any it predicts 0."""
    known = [each for each in simulations if each.ionisation_ev is not None]
    if not known:
        return Line(np.zeros(FINGERPRINT_SIZE), 0.0)
    table = np.zeros((len(known), FINGERPRINT_SIZE))
    for row, each in enumerate(known):
        for column, amount in environments(each.smiles).items():
            table[row, column] = amount
    values = np.array([each.ionisation_ev for each in known], np.float64)
    mean = float(values.mean())
    fitted = fit(table, values - mean)
    return Line(fitted.weights, fitted.intercept + mean)


def infer(line: Line, found: dict[int, int]) -> float:
    """Predicts the ionisation potential of a molecule from its environments, in eV."""
    columns = np.fromiter(found.keys(), np.intp, len(found))
    amounts = np.fromiter(found.values(), np.float64, len(found))
    return float(amounts @ line.weights[columns]) + line.intercept


def choose(
    candidates: Sequence[str],
    predicted_ev: Sequence[float],
    taken: Iterable[Sequence[Choice]],
    count: int,
) -> list[Choice]:
    """Returns the candidates with the best predictions that are not taken yet; of equal ones the earlier ones."""
    gone = {choice.smiles for batch in taken for choice in batch}
    free = [
        (value, smiles)
        for smiles, value in zip(candidates, predicted_ev, strict=True)
        if smiles not in gone
    ]
    best = sorted(free, key=lambda pair: -pair[0])[:count]
    return [Choice(smiles, value) for value, smiles in best]
