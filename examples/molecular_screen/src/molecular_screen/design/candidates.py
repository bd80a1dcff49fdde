"""Selection of the small and ordinary molecules of the library that the design loop may choose from.

Candidates are in the order of the library, without duplicates (stereoisomers count as the same one), and readable. The
quantum chemistry need not succeed on each.
"""

from collections.abc import Iterable, Iterator
from itertools import islice

from rdkit import Chem

from molecular_screen.data import Molecule

ATOM_COUNTS = range(4, 13)
"""The numbers of heavy atoms: below are gases, above a simulation takes over 0.2 s."""

SMILES_SIZE_MAX = 28
"""The limit of characters: nearly no longer SMILES is small enough, and checking it would mean parsing it."""

ELEMENTS = frozenset({1, 6, 7, 8, 9, 15, 16, 17})
"""H, C, N, O, F, P, S, Cl: the elements that both the force field and the tight-binding method know well."""


def candidates(molecules: Iterable[Molecule], count: int) -> list[str]:
    """Returns the SMILES, canonical and without stereochemistry, of up to `count` suited molecules."""
    return list(islice(_suited(molecules), count))


def _suited(molecules: Iterable[Molecule]) -> Iterator[str]:
    seen: set[str] = set()
    for molecule in molecules:
        if len(molecule.smiles) > SMILES_SIZE_MAX or "." in molecule.smiles:
            continue
        parsed = Chem.MolFromSmiles(molecule.smiles)
        if parsed is not None and _is_suited(parsed):
            flat = str(Chem.MolToSmiles(parsed, isomericSmiles=False))
            if flat not in seen:
                seen.add(flat)
                yield flat


def _is_suited(molecule: Chem.Mol) -> bool:
    """Returns whether the molecule is small, of usual elements, and without charges and unpaired electrons."""
    return molecule.GetNumHeavyAtoms() in ATOM_COUNTS and all(
        atom.GetAtomicNum() in ELEMENTS
        and atom.GetFormalCharge() == 0
        and atom.GetNumRadicalElectrons() == 0
        for atom in molecule.GetAtoms()
    )
