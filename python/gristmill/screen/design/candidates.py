"""Picks the molecules of the library that the design loop may choose from: small and ordinary ones.

Guarantees: the order of the library, none twice (stereoisomers count as the same one), each one
readable. Does not promise that the quantum chemistry succeeds on each.
"""

from collections.abc import Iterable, Iterator
from itertools import islice

from rdkit import Chem

from gristmill.screen.data import Molecule

ATOM_COUNTS = range(4, 13)
"""Heavy atoms: below are gases, above a simulation takes over 0.2 s."""

SMILES_SIZE_MAX = 28
"""Characters; nearly nothing longer is small enough, and finding that out would mean reading it."""

ELEMENTS = frozenset({1, 6, 7, 8, 9, 15, 16, 17})
"""H, C, N, O, F, P, S, Cl: what the force field and the tight-binding method both know well."""


def candidates(molecules: Iterable[Molecule], count: int) -> list[str]:
    """The SMILES, canonical and without stereochemistry, of up to `count` suited molecules."""
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
    """Whether it is small, uncharged in every atom, without a lone electron, of usual elements."""
    return molecule.GetNumHeavyAtoms() in ATOM_COUNTS and all(
        atom.GetAtomicNum() in ELEMENTS
        and atom.GetFormalCharge() == 0
        and atom.GetNumRadicalElectrons() == 0
        for atom in molecule.GetAtoms()
    )
