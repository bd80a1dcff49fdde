"""Conversion of a reactant into the fragment that a reaction leaves in the product, ready to be joined.

A rule that joins its two reactants by one single bond outside rings acts on each reactant alone: the product of A and B
is the fragment of A joined to the fragment of B. So RDKit applies the rule once to each reactant, with a fixed partner,
and every pair is then a concatenation of two strings.

Each molecule also has a *mark*, a 64-bit number that depends on the molecular graph alone (not on the SMILES, the
stereochemistry or how the molecule was made): the sum over pairs of atoms of
`weight(i) * weight(j) * STEP ** distance(i, j)`, modulo 2**64. Equal molecules always have equal marks; different ones
very rarely share one. Over one joining bond the sum splits, because every path from A to B passes it, so the mark of a
product costs three multiplications. Source: Hosoya's distance polynomial, Discrete Applied Mathematics 19 (1988); ours
adds weights of atoms and fixes the point.
"""

import hashlib
import re
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from rdkit import Chem
from rdkit.Chem import rdChemReactions

PRODUCT_COUNT_MAX = 32
"""The limit of examined reaction products; a reactant with more gives more than one product anyway."""

MASK = (1 << 64) - 1
STEP = 0x9E3779B97F4A7C15
"""The point at which the distance polynomial is evaluated; odd, so that no power of it becomes 0."""

_POWERS = np.array([pow(STEP, distance, 1 << 64) for distance in range(512)], np.uint64)
_TOKEN = re.compile(r"(\[[^\]]*\])|%(\d\d)|(\d)")


@dataclass(frozen=True, slots=True)
class Half:
    """The fragment of one reactant: `before + '-' + partner + after` is the SMILES of a product.

    `before` and `after` surround the place of the partner; `tail` is the same fragment written to follow a bond, with
    ring numbers from 50 so that they do not collide with those of a partner. `reach` is the sum of
    `weight * STEP ** distance` to the joining atom, `inside` the fragment's own mark.
    """

    before: str
    after: str
    tail: str
    reach: int
    inside: int
    atom_count: int


@cache
def _weight(kind: tuple[int, int, int, int, int]) -> int:
    """Returns the weight of a kind of atom: a hash that is equal in every process and run, and always odd."""
    return int.from_bytes(hashlib.blake2b(repr(kind).encode(), digest_size=8).digest()) | 1


def _weights(molecule: Chem.Mol) -> NDArray[np.uint64]:
    return np.array(
        [
            _weight(
                (
                    atom.GetAtomicNum(),
                    atom.GetDegree(),
                    atom.GetTotalNumHs(),
                    atom.GetFormalCharge(),
                    atom.GetIsotope(),
                )
            )
            for atom in molecule.GetAtoms()
        ],
        np.uint64,
    )


def _distances(molecule: Chem.Mol) -> NDArray[np.int64]:
    """Returns topological distances [atom][atom], limited to the table's size for atoms of different fragments."""
    matrix: NDArray[np.float64] = Chem.GetDistanceMatrix(molecule)
    return np.minimum(matrix, len(_POWERS) - 1).astype(np.int64)


def mark(molecule: Chem.Mol) -> int:
    """Returns the mark of a whole molecule."""
    return _mark_among(_weights(molecule), _distances(molecule))


def _mark_among(weights: NDArray[np.uint64], distances: NDArray[np.int64]) -> int:
    terms = weights[:, None] * weights[None, :] * _POWERS[distances]
    return int(np.triu(terms, 1).sum(dtype=np.uint64))


def joined_mark(first: Half, second: Half) -> int:
    """Returns the mark of the product of two halves."""
    return (first.inside + second.inside + STEP * first.reach * second.reach) & MASK


def joined_smiles(first: Half, second: Half) -> str:
    """Returns the SMILES (not canonical) of the product of two halves."""
    return f"{first.before}-{second.tail}{first.after}"


def product(
    reaction: rdChemReactions.ChemicalReaction, first: Chem.Mol, second: Chem.Mol
) -> Chem.Mol | None:
    """Applies a rule to two reactants. Returns `None` unless exactly one valid product results."""
    found: dict[str, Chem.Mol] = {}
    for (candidate,) in reaction.RunReactants((first, second), maxProducts=PRODUCT_COUNT_MAX):
        if Chem.SanitizeMol(candidate, catchErrors=True) != Chem.SanitizeFlags.SANITIZE_NONE:
            return None
        flatten_double_bonds(candidate)
        found.setdefault(Chem.MolToSmiles(candidate), candidate)
    return next(iter(found.values())) if len(found) == 1 else None


def flatten_double_bonds(molecule: Chem.Mol) -> None:
    """Removes cis and trans marks: they span bonds in a SMILES, which then cannot be cut in two."""
    for bond in molecule.GetBonds():
        if bond.GetBondType() == Chem.BondType.DOUBLE:
            bond.SetStereo(Chem.BondStereo.STEREONONE)
        bond.SetBondDir(Chem.BondDir.NONE)


def _joint(molecule: Chem.Mol) -> tuple[int, int] | None:
    """Finds the bond (atom of the first reactant, next atom) that joins the two reactants."""
    owners = [
        atom.GetIntProp("react_idx") if atom.HasProp("react_idx") else None
        for atom in molecule.GetAtoms()
    ]
    if 0 not in owners or 1 not in owners:
        return None
    path = Chem.GetShortestPath(molecule, owners.index(0), owners.index(1))
    if not path:
        return None
    place = max(index for index, atom in enumerate(path) if owners[atom] == 0)
    bond = molecule.GetBondBetweenAtoms(path[place], path[place + 1])
    if bond.GetBondType() != Chem.BondType.SINGLE or bond.IsInRing():
        return None
    return path[place], path[place + 1]


def halves(molecule: Chem.Mol) -> tuple[Half, Half] | None:
    """Cuts a product at the bond that joined its reactants. Returns `None` if there is not exactly one such bond."""
    joint = _joint(molecule)
    if joint is None:
        return None
    bond = molecule.GetBondBetweenAtoms(*joint)
    cut = Chem.FragmentOnBonds(molecule, [bond.GetIdx()], dummyLabels=[(0, 0)])
    members: list[tuple[int, ...]] = []
    parts = Chem.GetMolFrags(cut, asMols=True, sanitizeFrags=False, fragsMolAtomMapping=members)
    if len(parts) != 2:
        return None
    weights, distances = _weights(molecule), _distances(molecule)
    made = []
    for atom in joint:
        part, own = next(pair for pair in zip(parts, members, strict=True) if atom in pair[1])
        written = _written(part)
        if written is None:
            return None
        kept = np.array([index for index in own if index < molecule.GetNumAtoms()])
        reach = int((weights[kept] * _POWERS[distances[kept, atom]]).sum(dtype=np.uint64))
        inside = _mark_among(weights[kept], distances[np.ix_(kept, kept)])
        made.append(Half(*written, reach, inside, len(kept)))
    return made[0], made[1]


def _written(part: Chem.Mol) -> tuple[str, str, str] | None:
    """Writes a fragment as (before, after, tail). Its atom 0, the cut, is '*' in its SMILES."""
    dummy = next(atom.GetIdx() for atom in part.GetAtoms() if atom.GetAtomicNum() == 0)
    anchor = 0 if dummy else 1
    around = Chem.MolToSmiles(part, rootedAtAtom=anchor)
    after_bond = Chem.MolToSmiles(part, rootedAtAtom=dummy)
    before, star, after = around.partition("*")
    if not star or "*" in after or not after_bond.startswith("*"):
        return None
    return before.removesuffix("-"), after, _far_ring_numbers(after_bond[1:].removeprefix("-"))


def _far_ring_numbers(smiles: str) -> str:
    """Moves ring numbers to 50 and up, except inside brackets."""

    def moved(token: re.Match[str]) -> str:
        bracket, long, short = token.groups()
        return str(bracket) if bracket else f"%{int(long or short) + 50}"

    return _TOKEN.sub(moved, smiles)
