"""Tasks of docking: prepare a ligand, dock it, train a model on scores, and predict scores."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, NamedTuple

#: Size of the fingerprint in bits, and its radius in bonds around each atom.
_SIZE, _RADIUS = 2048, 2
#: Neighbours of the regression; ParslDock has as many.
_NEIGHBORS = 4
#: Seed of the embedding, the same for all molecules, so that a molecule has one geometry.
_EMBEDDING_SEED = 1


class Ligand(NamedTuple):
    """A molecule as PDBQT, or the reason why there is none."""

    smiles: str
    pdbqt: str
    failure: str = ""


class Docked(NamedTuple):
    """The best pose of a ligand, as PDBQT, and its score in kcal/mol.

    If docking failed, the score is ``None`` and ``failure`` has the reason.
    """

    smiles: str
    score: float | None
    pose: str = ""
    failure: str = ""


def prepare(smiles: str) -> Ligand:
    """Places a molecule's atoms and finds its rotatable bonds."""
    from rdkit import Chem
    from rdkit.Chem import rdDistGeom, rdForceFieldHelpers

    meeko = importlib.import_module("meeko")
    molecule = Chem.AddHs(Chem.MolFromSmiles(smiles))
    parameters = rdDistGeom.ETKDGv3()
    parameters.randomSeed = _EMBEDDING_SEED
    if rdDistGeom.EmbedMolecule(molecule, parameters) != 0:
        return Ligand(smiles, "", "it cannot be embedded in three dimensions")
    if rdForceFieldHelpers.MMFFHasAllMoleculeParams(molecule):
        rdForceFieldHelpers.MMFFOptimizeMolecule(molecule)
    setups = meeko.MoleculePreparation().prepare(molecule)
    text, is_good, reason = meeko.PDBQTWriterLegacy.write_string(setups[0])
    return Ligand(smiles, text) if is_good else Ligand(smiles, "", reason)


def opened(path: str, center: Sequence[float], edge: float, seed: int) -> Any:
    """Sets docking up: reads the receptor, and computes the energy of each type of atom at each point of the box."""
    docking = importlib.import_module("vina").Vina("vina", cpu=1, seed=seed, verbosity=0)
    docking.set_receptor(path)
    docking.compute_vina_maps(center=list(center), box_size=[edge] * 3)
    return docking


def dock(docking: Any, ligand: Ligand, exhaustiveness: int) -> Docked:
    """Docks a ligand: searches for the pose with the lowest score. The seed is the same for all ligands."""
    if ligand.failure:
        return Docked(ligand.smiles, None, failure=ligand.failure)
    docking.set_ligand_from_string(ligand.pdbqt)
    docking.dock(exhaustiveness=exhaustiveness, n_poses=1)
    energies = docking.energies(n_poses=1)
    if not len(energies):
        return Docked(ligand.smiles, None, failure="no pose is inside the box")
    return Docked(ligand.smiles, float(energies[0][0]), docking.poses(n_poses=1))


def train(docked: Sequence[Docked]) -> Any:
    """Fits a regression to the known scores: the mean of the nearest molecules, in which nearer ones count more."""
    neighbors = importlib.import_module("sklearn.neighbors")
    known = {one.smiles: one.score for one in docked if one.score is not None}
    model = neighbors.KNeighborsRegressor(
        min(_NEIGHBORS, len(known)), weights="distance", metric="jaccard"
    )
    return model.fit(_fingerprints(tuple(known)), tuple(known.values()))


def infer(model: Any, share: Sequence[str]) -> list[float]:
    """Predicts the scores of some molecules, in kcal/mol."""
    predicted: list[float] = model.predict(_fingerprints(share)).tolist()
    return predicted


def _fingerprints(molecules: Sequence[str]) -> Any:
    """Returns Morgan fingerprints, a row of booleans for each molecule."""
    import numpy as np
    from rdkit import Chem
    from rdkit.Chem import rdFingerprintGenerator

    generator = rdFingerprintGenerator.GetMorganGenerator(radius=_RADIUS, fpSize=_SIZE)
    rows = [generator.GetFingerprintAsNumPy(Chem.MolFromSmiles(one)) for one in molecules]
    return np.stack(rows).astype(bool)
