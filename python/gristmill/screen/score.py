"""The task: fingerprints and scores one molecule.

Kept apart from training and reports, so that a worker imports RDKit and numpy and nothing more.
`load` must have run in the process before `score`; executors do that through their initializer.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rdkit import Chem, RDLogger
from rdkit.Chem import rdFingerprintGenerator

FINGERPRINT_SIZE = 4096
"""Columns of the folded fingerprint; the measured molecules set about 1,500 different ones."""

FINGERPRINT_RADIUS = 1
"""Bonds around each atom: on so few measured values wider environments do not predict better."""

Score = tuple[float, float, float]
"""Predicted log S (log10 mol/L), hydration free energy (kcal/mol), known share (0 to 1).

The known share says how much of the molecule the measured ones cover: its atom environments, each
counted at most as often as it occurs in one measured molecule. Below 1 the model extrapolates.
"""


class Model(NamedTuple):
    """Two linear surrogates, and the largest measured count of each environment.

    Shapes: weights [FINGERPRINT_SIZE][2], intercepts [2], largest [FINGERPRINT_SIZE].
    """

    weights: NDArray[np.float64]
    intercepts: NDArray[np.float64]
    largest: NDArray[np.float64]


_generator = rdFingerprintGenerator.GetMorganGenerator(
    radius=FINGERPRINT_RADIUS, fpSize=FINGERPRINT_SIZE
)
_model: Model | None = None


def load(model: Model) -> None:
    """Makes the process ready to score: keeps the model and silences RDKit's own log."""
    global _model
    _model = model
    RDLogger.DisableLog("rdApp.*")


def counts(molecule: Chem.Mol) -> dict[int, int]:
    """Counts the atom environments (Morgan) of a molecule by column."""
    found: dict[int, int] = _generator.GetCountFingerprint(molecule).GetNonzeroElements()
    return found


def score(smiles: str) -> Score | str:
    """Scores one molecule; answers the reason as text when RDKit cannot read it.

    # Panics
    `RuntimeError` when `load` has not run in this process.
    """
    if _model is None:
        raise RuntimeError("load(model) has not run in this process")
    molecule = Chem.MolFromSmiles(smiles)
    if molecule is None:
        return _reason(smiles)
    found = counts(molecule)
    columns = np.fromiter(found.keys(), np.intp, len(found))
    amounts = np.fromiter(found.values(), np.float64, len(found))
    log_s, hydration = (amounts @ _model.weights[columns] + _model.intercepts).tolist()
    known = np.minimum(amounts, _model.largest[columns])
    return log_s, hydration, float(known.sum()) / max(float(amounts.sum()), 1.0)


def _reason(smiles: str) -> str:
    """Says why RDKit refuses a SMILES: its grammar, or the chemistry that it writes down."""
    unchecked = Chem.MolFromSmiles(smiles, sanitize=False)
    if unchecked is None:
        return "not a valid SMILES"
    problems = Chem.DetectChemistryProblems(unchecked)
    return str(problems[0].Message()) if problems else "RDKit cannot sanitize it"
