"""The simulation is real quantum chemistry: close to experiment, repeatable, and without exceptions."""

import numpy as np
import pytest
from tblite.interface import Calculator

from molecular_screen.data import Molecule
from molecular_screen.design import simulation
from molecular_screen.design.candidates import candidates


@pytest.mark.parametrize(
    ("smiles", "measured_ev"),
    [("c1ccccc1", 9.24), ("CC(C)=O", 9.70), ("Nc1ccccc1", 8.02), ("CCO", 10.6), ("CC#N", 12.2)],
)
def test_an_ionisation_potential_is_near_the_measured_one(smiles: str, measured_ev: float) -> None:
    assert simulation.simulate(smiles).ionisation_ev == pytest.approx(measured_ev, abs=0.4)


def test_the_value_is_the_difference_of_two_energies_of_the_quantum_code() -> None:
    numbers, positions = simulation.geometry("CC=O")
    energies = []
    for charge in (0, 1):
        calculator = Calculator("IPEA1-xTB", numbers, positions, charge=charge, uhf=charge)
        calculator.set("verbosity", 0)
        energies.append(calculator.singlepoint().get("energy"))
    expected = (energies[1] - energies[0]) * 27.211386 - 4.8455
    assert simulation.simulate("CC=O").ionisation_ev == pytest.approx(expected, abs=1e-9)


def test_a_molecule_has_one_geometry_and_one_value() -> None:
    first, second = (simulation.simulate("OCC(F)CN") for _ in range(2))
    assert first.ionisation_ev == second.ionisation_ev


@pytest.mark.parametrize(
    ("smiles", "reason"),
    [
        ("not one", "not a valid SMILES"),
        ("C[Se]C", "force field"),
        ("C1#CC1", "cannot be embedded"),
        ("[Na]", "electrons"),
    ],
)
def test_a_molecule_that_cannot_be_simulated_is_answered_with_the_reason(
    smiles: str, reason: str
) -> None:
    answer = simulation.simulate(smiles)
    assert answer.ionisation_ev is None
    assert reason in answer.failure


def test_what_the_quantum_code_refuses_is_answered_with_its_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heap = np.array([6, 6]), np.zeros((2, 3))
    monkeypatch.setattr(simulation, "geometry", lambda smiles: heap)
    answer = simulation.simulate("CC")
    assert answer.ionisation_ev is None
    assert "distances" in answer.failure


def test_candidates_are_small_usual_molecules_and_each_is_one_once() -> None:
    library = [
        "CCCC",
        "C(C)CC",
        "C[C@H](O)C#N",
        "C[C@@H](O)C#N",
        "CCO",
        "CC(=O)[O-]",
        "CCCC.Cl",
        "CC[CH]C",
        "CC[Se]CC",
        "not one",
        "C" * 13,
        "CCCCN",
    ]
    molecules = [Molecule(smiles, "test") for smiles in library]
    assert candidates(molecules, 10) == ["CCCC", "CC(O)C#N", "CCCCN"]
    assert candidates(molecules, 2) == ["CCCC", "CC(O)C#N"]
