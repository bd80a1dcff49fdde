"""The receptor as AutoDock Vina reads it, and the box in which ligands are docked.

The structure is one that ProLIF ships for its own examples: the serotonin receptor 5-HT1B with all its hydrogens, from
a molecular dynamics simulation, and a ligand in its binding site. Only these two files are read. No code of ProLIF
runs, so that none of its dependencies is needed.
"""

from __future__ import annotations

from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING

from gristmill_bench.errors import BenchError

if TYPE_CHECKING:
    from rdkit import Chem

_RECEPTOR, _LIGAND = "prolif/data/vina/rec.pdb", "prolif/data/vina/lig.pdb"


def _file(name: str) -> str:
    path = Path(str(distribution("prolif").locate_file(name)))
    if not path.is_file():
        raise BenchError(f"this version of prolif has no {name}")
    return str(path)


def write_receptor(path: Path) -> None:
    """Writes the receptor as PDBQT: 2,900 of its atoms, each with the type that says how it binds."""
    from rdkit import Chem

    molecule = Chem.MolFromPDBFile(_file(_RECEPTOR), removeHs=False, sanitize=False)
    typed = ((atom, atom_type(atom)) for atom in molecule.GetAtoms())
    positions = molecule.GetConformer().GetPositions()
    lines = [
        _line(number, atom, kind, positions[atom.GetIdx()].tolist())
        for number, (atom, kind) in enumerate(((a, k) for a, k in typed if k is not None), 1)
    ]
    path.write_text("\n".join(lines) + "\n", encoding="ascii")


def atom_type(atom: Chem.Atom) -> str | None:
    """Returns AutoDock's type of a protein's atom, or ``None`` for hydrogens on carbon, which are left out.

    Types are those of Morris et al., *AutoDock4 and AutoDockTools4*, 2009. Oxygens and sulfurs accept hydrogen bonds; a
    nitrogen does if it has two neighbours, as one of those of histidine. Vina recognizes donors by their hydrogens.
    """
    match atom.GetSymbol():
        case "H":
            is_polar = any(one.GetSymbol() in ("N", "O", "S") for one in atom.GetNeighbors())
            return "HD" if is_polar else None
        case "C":
            return "C"
        case "N":
            return "NA" if atom.GetDegree() == 2 else "N"
        case "O":
            return "OA"
        case "S":
            return "SA"
    raise BenchError(f"the receptor has an atom of {atom.GetSymbol()}, whose type is not known")


def _line(number: int, atom: Chem.Atom, kind: str, position: list[float]) -> str:
    """Returns the line of an atom in the columns of PDBQT. Vina ignores the charge."""
    residue = atom.GetPDBResidueInfo()
    x, y, z = position
    return (
        f"ATOM  {number:5d} {residue.GetName():4s} {residue.GetResidueName():>3s} "
        f"{residue.GetChainId():1s}{residue.GetResidueNumber():4d}    "
        f"{x:8.3f}{y:8.3f}{z:8.3f}{1:6.2f}{0:6.2f}    {0:6.3f} {kind}"
    )


def box_center() -> tuple[float, float, float]:
    """Returns the middle of the ligand in the binding site, in angstroms."""
    from rdkit import Chem

    molecule = Chem.MolFromPDBFile(_file(_LIGAND), sanitize=False)
    positions = molecule.GetConformer().GetPositions()
    x, y, z = ((positions.min(axis=0) + positions.max(axis=0)) / 2).round(3).tolist()
    return x, y, z
