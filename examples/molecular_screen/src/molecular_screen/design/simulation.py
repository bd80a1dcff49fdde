"""Simulation of one molecule: its vertical ionisation potential by extended tight binding (IPEA1-xTB).

A molecule is embedded in three dimensions and relaxed by a force field. Two energies at that geometry follow: of the
molecule, and of the molecule without one electron. The values agree with experiment to some tenths of an eV; the loop
needs only the order of molecules. With one thread the same SMILES always gives the same value to the last bit. The
module does not search for the best conformer.
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
"""The excess of the method in every ionisation potential, eV; part of its parameters."""

EV_OF_HARTREE = 27.211386
BOHR_OF_ANGSTROM = 1 / 0.529177211

EMBEDDING_SEED = 1
"""The seed for all embeddings, so that a molecule has one geometry."""

RELAXATION_STEP_COUNT_MAX = 500
"""The limit of relaxation steps: a molecule of a dozen heavy atoms needs under a hundred."""


class Simulation(NamedTuple):
    """The result for one molecule: its value in eV, or the reason why there is none; the seconds of both energies."""

    smiles: str
    ionisation_ev: float | None
    failure: str = ""
    quantum_s: float = 0.0


class GeometryError(Exception):
    """An error for a molecule without a three-dimensional structure. The message says why."""


def simulate(smiles: str) -> Simulation:
    """Simulates one molecule. A failure is an ordinary result with its reason."""
    try:
        numbers, positions = geometry(smiles)
        start = time.perf_counter()
        value = ionisation_ev(numbers, positions)
    except (GeometryError, TBLiteRuntimeError) as failure:
        return Simulation(smiles, None, str(failure))
    return Simulation(smiles, value, "", time.perf_counter() - start)


def geometry(smiles: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Computes the positions of the atoms: atomic numbers [atom] and positions [atom][3] in bohr.

    # Errors

    `GeometryError`; trying again gives the same.
    """
    RDLogger.DisableLog("rdApp.*")
    read = Chem.MolFromSmiles(smiles)
    if read is None or not read.GetNumAtoms():
        raise GeometryError("not a valid SMILES")
    molecule = Chem.AddHs(read)
    parameters = rdDistGeom.ETKDGv3()
    parameters.randomSeed = EMBEDDING_SEED
    if rdDistGeom.EmbedMolecule(molecule, parameters) != 0:
        raise GeometryError("it cannot be embedded in three dimensions")
    if not rdForceFieldHelpers.MMFFHasAllMoleculeParams(molecule):
        raise GeometryError("the force field MMFF94 does not know its atoms")
    rdForceFieldHelpers.MMFFOptimizeMolecule(molecule, maxIters=RELAXATION_STEP_COUNT_MAX)
    numbers = np.array([atom.GetAtomicNum() for atom in molecule.GetAtoms()], np.int64)
    return numbers, molecule.GetConformer().GetPositions() * BOHR_OF_ANGSTROM


def ionisation_ev(numbers: NDArray[np.int64], positions: NDArray[np.float64]) -> float:
    """Returns the energy that it takes to remove an electron at once, in eV.

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
    """Returns the total energy for a charge and a number of unpaired electrons, in hartree."""
    calculator = Calculator(METHOD, numbers, positions, charge=charge, uhf=unpaired)
    calculator.set("verbosity", 0)
    return float(calculator.singlepoint().get("energy"))
