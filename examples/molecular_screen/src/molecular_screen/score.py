"""The task: fingerprint and score of one molecule.

The module is separate from training and reports, so that a worker imports only RDKit and numpy. `load` must have run in
the process before `score`; executors run it as their initializer.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rdkit import Chem, RDLogger
from rdkit.Chem import rdFingerprintGenerator

FINGERPRINT_SIZE = 4096
"""The columns of the folded fingerprint; the measured molecules set about 1,500 different ones."""

FINGERPRINT_RADIUS = 1
"""The radius in bonds around each atom: on so few measured values wider environments do not predict better."""

Score = tuple[float, float, float]
"""Predicted log S (log10 mol/L), hydration free energy (kcal/mol), known share (0 to 1).

The known share is the part of the molecule that the measured ones cover: its atom environments, each counted at most as
often as it occurs in one measured molecule. Below 1 the model extrapolates.
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
    """Prepares the process for scoring: stores the model and silences RDKit's own log."""
    global _model
    _model = model
    RDLogger.DisableLog("rdApp.*")


def counts(molecule: Chem.Mol) -> dict[int, int]:
    """Counts the atom environments (Morgan) of a molecule by column."""
    found: dict[int, int] = _generator.GetCountFingerprint(molecule).GetNonzeroElements()
    return found


def score(smiles: str) -> Score | str:
    """Scores one molecule. Returns the reason as text if RDKit cannot read it.

    Raises `RuntimeError` if `load` has not run in this process.
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
    """Returns why RDKit refuses a SMILES: its grammar, or the chemistry that it describes."""
    unchecked = Chem.MolFromSmiles(smiles, sanitize=False)
    if unchecked is None:
        return "not a valid SMILES"
    problems = Chem.DetectChemistryProblems(unchecked)
    return str(problems[0].Message()) if problems else "RDKit cannot sanitize it"
