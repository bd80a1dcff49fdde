"""Generated molecules are valid and distinct, agree with RDKit's use of the rule, and are the same for a seed."""

import itertools

import pytest
from rdkit import Chem
from rdkit.Chem import rdChemReactions

from molecular_screen import data, fragment
from molecular_screen.data import Molecule
from molecular_screen.library import Library

ACIDS = ["CC(=O)O", "OC(=O)c1ccccc1", "OC(=O)C1CCCCC1", "O=C(O)c1ccc(F)cc1", "C[C@H](F)C(=O)O"]
AMINES = ["NCCC", "C1CCNCC1", "Nc1ccccc1", "NCc1ccncc1", "N[C@@H](C)c1ccccc1"]


def small_library(extra: tuple[str, ...] = (), seed: int = 0) -> Library:
    real = [Molecule(smiles, "test") for smiles in (*ACIDS, *AMINES, *extra)]
    return Library(real, data.rules(), seed)


@pytest.fixture(scope="module")
def shelf(measured: list[data.Property]) -> Library:
    return Library(list(data.real_molecules(measured))[::4], data.rules(), seed=0)


def test_made_molecules_are_valid_and_none_comes_twice(shelf: Library) -> None:
    count = shelf.real_count + 2_000
    molecules = list(shelf.molecules(count))
    assert len(molecules) == count
    parsed = [Chem.MolFromSmiles(molecule.smiles) for molecule in molecules]
    assert None not in parsed
    assert len({Chem.MolToSmiles(molecule) for molecule in parsed}) == count


def test_the_real_molecules_come_first(shelf: Library) -> None:
    molecules = list(shelf.molecules(shelf.real_count + 1))
    assert molecules[0].origin == "ChEMBL drug"
    assert molecules[-2].origin == "FreeSolv"
    assert "Amide" in molecules[-1].origin


def test_a_library_is_the_same_for_the_same_seed_and_another_for_another() -> None:
    first, again, other = (
        [m.smiles for m in small_library(seed=seed).molecules(30)] for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_each_made_molecule_is_the_product_that_the_rule_gives() -> None:
    reaction = rdChemReactions.ReactionFromSmarts(data.rules()["amide_coupling-1"].smarts)
    reaction.Initialize()
    expected = set()
    for acid, amine in itertools.product(ACIDS, AMINES):
        pair = (Chem.MolFromSmiles(acid), Chem.MolFromSmiles(amine))
        made = fragment.product(reaction, *pair)
        assert made is not None
        expected.add(Chem.MolToSmiles(made))
    title = data.rules()["amide_coupling-1"].title
    made_by_rule = [m.smiles for m in small_library().molecules(100) if m.origin == title]
    molecules = [Chem.CanonSmiles(smiles) for smiles in made_by_rule]
    assert sorted(molecules[: len(expected)]) == sorted(expected)


def test_the_mark_of_a_product_is_computed_from_its_halves() -> None:
    reaction = rdChemReactions.ReactionFromSmarts(data.rules()["amide_coupling-1"].smarts)
    reaction.Initialize()
    for acid, amine in itertools.product(ACIDS, AMINES):
        made = fragment.product(reaction, Chem.MolFromSmiles(acid), Chem.MolFromSmiles(amine))
        assert made is not None
        cut = fragment.halves(made)
        assert cut is not None
        assert fragment.joined_mark(*cut) == fragment.mark(made)
        assert Chem.CanonSmiles(fragment.joined_smiles(*cut)) == Chem.MolToSmiles(made)


def test_a_mark_does_not_depend_on_how_a_molecule_is_written() -> None:
    written = ["CCOc1ccccc1C(=O)NC", "CNC(=O)c1ccccc1OCC", "C(C)Oc1c(C(NC)=O)cccc1"]
    assert len({fragment.mark(Chem.MolFromSmiles(smiles)) for smiles in written}) == 1


def test_marks_tell_isomers_apart() -> None:
    isomers = ["CCOc1ccccc1C", "CCOc1cccc(C)c1", "CCOc1ccc(C)cc1", "CCCOc1ccccc1", "CC(C)Oc1ccccc1"]
    assert len({fragment.mark(Chem.MolFromSmiles(smiles)) for smiles in isomers}) == len(isomers)


def test_a_product_that_is_a_real_molecule_is_not_made_again() -> None:
    known = "CC(=O)NCCC"
    made = [Chem.CanonSmiles(m.smiles) for m in small_library((known,)).molecules(36)][11:]
    assert Chem.CanonSmiles(known) not in made


def test_a_library_that_is_used_up_ends() -> None:
    real = [Molecule("CC(=O)O", "test"), Molecule("C1CCCCC1", "test")]
    assert len(list(Library(real, data.rules(), seed=0).molecules(1_000))) == len(real)
