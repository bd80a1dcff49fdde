"""Simulates one molecule: its vertical ionisation potential by extended tight binding (IPEA1-xTB).

Embedded in three dimensions and relaxed by a force field, then two energies at the same geometry:
of the molecule, and of the molecule without one electron. Against experiment good to some tenths
of an eV; the order of molecules is what the loop is after. Guarantees: with one thread the same
SMILES gives the same value to the last bit, whoever asks. Does not look for the best conformer.
"""

import time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rdkit import Chem, RDLogger
from rdkit.Chem import rdDistGeom, rdForceFieldHelpers
from tblite.exceptions import TBLiteRuntimeError
from tblite.interface import Calculator

METHOD = "IPEA1-xTB"
"""GFN1-xTB, fitted to ionisation. Source: Asgeirsson, Bauer & Grimme, Chem. Sci. 8 (2017) 4879."""

SHIFT_EV = 4.8455
"""What the method has too much in every ionisation potential; part of its parameters."""

EV_OF_HARTREE = 27.211386
BOHR_OF_ANGSTROM = 1 / 0.529177211

EMBEDDING_SEED = 1
"""The same for all, so that a molecule has one geometry."""

RELAXATION_STEP_COUNT_MAX = 500
"""A molecule of a dozen heavy atoms needs under a hundred."""


class Simulation(NamedTuple):
    """What became of one molecule: its value in eV, or why there is none; seconds it took."""

    smiles: str
    ionisation_ev: float | None
    failure: str = ""
    geometry_s: float = 0.0
    quantum_s: float = 0.0


class NoGeometry(Exception):
    """A molecule without a three-dimensional structure; the message says why."""


def simulate(smiles: str) -> Simulation:
    """Simulates one molecule; a failure is an ordinary outcome, answered with its reason."""
    start = time.perf_counter()
    placed = start
    try:
        numbers, positions = geometry(smiles)
        placed = time.perf_counter()
        value = ionisation_ev(numbers, positions)
    except (NoGeometry, TBLiteRuntimeError) as failure:
        return Simulation(smiles, None, str(failure), time.perf_counter() - start)
    return Simulation(smiles, value, "", placed - start, time.perf_counter() - placed)


def geometry(smiles: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Places the atoms: atomic numbers [atom] and positions [atom][3] in bohr.

    # Errors
    `NoGeometry`; trying again gives the same.
    """
    RDLogger.DisableLog("rdApp.*")
    read = Chem.MolFromSmiles(smiles)
    if read is None or not read.GetNumAtoms():
        raise NoGeometry("not a valid SMILES")
    molecule = Chem.AddHs(read)
    parameters = rdDistGeom.ETKDGv3()
    parameters.randomSeed = EMBEDDING_SEED
    if rdDistGeom.EmbedMolecule(molecule, parameters) != 0:
        raise NoGeometry("it cannot be embedded in three dimensions")
    if not rdForceFieldHelpers.MMFFHasAllMoleculeParams(molecule):
        raise NoGeometry("the force field MMFF94 does not know its atoms")
    rdForceFieldHelpers.MMFFOptimizeMolecule(molecule, maxIters=RELAXATION_STEP_COUNT_MAX)
    numbers = np.array([atom.GetAtomicNum() for atom in molecule.GetAtoms()], np.int64)
    return numbers, molecule.GetConformer().GetPositions() * BOHR_OF_ANGSTROM


def ionisation_ev(numbers: NDArray[np.int64], positions: NDArray[np.float64]) -> float:
    """The energy that it takes to remove an electron at once, in eV.

    # Errors
    `TBLiteRuntimeError` when an energy does not converge, or an element is unknown.
    """
    whole, ionised = (
        energy_hartree(numbers, positions, charge, unpaired)
        for charge, unpaired in ((0, 0), (1, 1))
    )
    return (ionised - whole) * EV_OF_HARTREE - SHIFT_EV


def energy_hartree(
    numbers: NDArray[np.int64], positions: NDArray[np.float64], charge: int, unpaired: int
) -> float:
    """The total energy with a charge and a count of unpaired electrons."""
    calculator = Calculator(METHOD, numbers, positions, charge=charge, uhf=unpaired)
    calculator.set("verbosity", 0)
    return float(calculator.singlepoint().get("energy"))
