"""The training of the surrogates: ridge regression on Morgan counts, and their error on unseen molecules.

The error is that of cross-validation: every molecule is predicted by a model that was trained without that molecule's
fold. Two splits are reported: at random, and by scaffold (no ring system is in training and test at once), which is
closer to a screen of new chemistry. The error far from the measured molecules is not estimated.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rdkit import Chem
from rdkit.Chem.Scaffolds import MurckoScaffold

from molecular_screen.data import Property
from molecular_screen.score import FINGERPRINT_SIZE, Model, counts

FOLD_COUNT = 5
PENALTY = 3.0
"""The weight of the squared coefficients; with 1 or 10 held-out errors differ by under 10 %."""

BIAS = 30.0
"""The value of the constant column for the intercept: penalised 900 times less than a count of 1."""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Measured:
    """The training data of one property: each molecule once, repeated measurements averaged."""

    of: Property
    smiles: list[str]
    counts: Array
    values: Array


@dataclass(frozen=True)
class Fit:
    """A fitted line, and the inverse and dual solution from which held-out errors follow."""

    weights: Array
    intercept: float
    inverse: Array
    dual: Array


@dataclass(frozen=True)
class Validation:
    """Held-out predictions of one property under one split, in its unit."""

    split: str
    measured: Array
    predicted: Array

    @property
    def rmse(self) -> float:
        """Root of the mean squared error."""
        return float(np.sqrt(np.mean((self.predicted - self.measured) ** 2)))

    @property
    def mean_absolute_error(self) -> float:
        """Mean of the absolute error."""
        return float(np.mean(np.abs(self.predicted - self.measured)))

    @property
    def rmse_of_mean(self) -> float:
        """The RMSE of always predicting the mean, which a model must beat."""
        return float(np.std(self.measured))

    @property
    def r_squared(self) -> float:
        """The share of the variance that is explained."""
        return 1.0 - (self.rmse / self.rmse_of_mean) ** 2


@dataclass(frozen=True)
class Surrogate:
    """One trained property: its data, its line (weights [columns], intercept), its errors."""

    data: Measured
    weights: Array
    intercept: float
    validations: list[Validation]


def measured(source: Property) -> Measured:
    """Computes the fingerprints of the measured molecules; omits those that RDKit cannot read."""
    values: dict[str, list[float]] = {}
    for smiles, value in source.values:
        molecule = Chem.MolFromSmiles(smiles)
        if molecule is not None:
            values.setdefault(Chem.MolToSmiles(molecule), []).append(value)
    table = np.zeros((len(values), FINGERPRINT_SIZE))
    for row, smiles in enumerate(values):
        for column, amount in counts(Chem.MolFromSmiles(smiles)).items():
            table[row, column] = amount
    return Measured(source, list(values), table, np.array([np.mean(v) for v in values.values()]))


def fit(table: Array, values: Array) -> Fit:
    """Fits a ridge regression, in the dual because molecules are fewer than columns."""
    kernel = table @ table.T + BIAS**2
    kernel[np.diag_indices_from(kernel)] += PENALTY
    inverse = np.linalg.inv(kernel).astype(np.float64, copy=False)
    dual = inverse @ values
    return Fit(table.T @ dual, BIAS**2 * float(dual.sum()), inverse, dual)


def random_folds(data: Measured, seed: int) -> NDArray[np.intp]:
    """Assigns the molecules to folds at random."""
    dealt = np.arange(len(data.values)) % FOLD_COUNT
    return np.random.default_rng(seed).permutation(dealt)


def _scaffold(smiles: str) -> str:
    """Returns the ring systems of a molecule with their linkers; empty for a molecule without rings."""
    molecule = Chem.MolFromSmiles(smiles)
    scaffold = MurckoScaffold.GetScaffoldForMol(molecule)
    return str(Chem.MolToSmiles(scaffold))


def scaffold_folds(data: Measured, seed: int) -> NDArray[np.intp]:
    """Assigns whole scaffolds to folds; a molecule without rings is a scaffold of its own."""
    scaffolds = [_scaffold(smiles) or smiles for smiles in data.smiles]
    names = sorted(set(scaffolds))
    dealt = np.random.default_rng(seed).permutation(np.arange(len(names)) % FOLD_COUNT)
    fold_of = dict(zip(names, dealt.tolist(), strict=True))
    return np.array([fold_of[name] for name in scaffolds])


def validate(data: Measured, fitted: Fit, split: str, fold: NDArray[np.intp]) -> Validation:
    """Predicts every molecule as a model would that is trained on the other folds.

    The predictions are exact but need no further training: a ridge regression's residuals on a left-out set follow from
    the inverse of the whole kernel matrix, restricted to that set.
    """
    predicted = np.empty_like(data.values)
    for number in range(FOLD_COUNT):
        held = np.flatnonzero(fold == number)
        residuals = np.linalg.solve(fitted.inverse[np.ix_(held, held)], fitted.dual[held])
        predicted[held] = data.values[held] - residuals
    return Validation(split, data.values, predicted)


def train(source: Property, seed: int) -> Surrogate:
    """Trains one property on all its values and validates it under both splits."""
    data = measured(source)
    fitted = fit(data.counts, data.values)
    validations = [
        validate(data, fitted, "random", random_folds(data, seed)),
        validate(data, fitted, "by scaffold", scaffold_folds(data, seed)),
    ]
    return Surrogate(data, fitted.weights, fitted.intercept, validations)


def combined(surrogates: list[Surrogate]) -> Model:
    """Combines the lines of all properties into one model, so that one product scores them all.

    The known environments are those of the first property, the one that is ranked.
    """
    weights = np.ascontiguousarray(np.stack([each.weights for each in surrogates], axis=1))
    intercepts = np.array([each.intercept for each in surrogates])
    return Model(weights, intercepts, surrogates[0].data.counts.max(axis=0))
