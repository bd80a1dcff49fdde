"""The model predicts molecules that it has not seen, and never trains on its test set."""

import numpy as np
import pytest
from rdkit import Chem

from molecular_screen import score, surrogate
from molecular_screen.surrogate import FOLD_COUNT, Surrogate


def test_held_out_error_is_under_half_of_the_error_of_the_mean(
    surrogates: list[Surrogate],
) -> None:
    for trained in surrogates:
        for check in trained.validations:
            assert check.rmse < 0.5 * check.rmse_of_mean


def test_shuffled_values_cannot_be_predicted(surrogates: list[Surrogate]) -> None:
    data = surrogates[1].data
    shuffled = np.random.default_rng(0).permutation(data.values)
    noise = surrogate.Measured(data.of, data.smiles, data.counts, shuffled)
    fitted = surrogate.fit(noise.counts, noise.values)
    check = surrogate.validate(noise, fitted, "random", surrogate.random_folds(noise, seed=0))
    assert check.rmse > 0.9 * check.rmse_of_mean


def test_held_out_predictions_are_those_of_a_model_without_the_fold(
    surrogates: list[Surrogate],
) -> None:
    data = surrogates[1].data
    fold = surrogate.random_folds(data, seed=0)
    check = surrogate.validate(data, surrogate.fit(data.counts, data.values), "random", fold)
    held = fold == 2
    without = surrogate.fit(data.counts[~held], data.values[~held])
    again = data.counts[held] @ without.weights + without.intercept
    assert check.predicted[held] == pytest.approx(again, abs=1e-6)


def test_a_molecule_measured_twice_is_one_with_the_mean_value(surrogates: list[Surrogate]) -> None:
    values = [("CCO", 1.0), ("OCC", 3.0), ("CCC", 5.0)]
    source = surrogate.Property("t", "u", "s", values)
    data = surrogate.measured(source)
    assert data.smiles == ["CCO", "CCC"]
    assert data.values.tolist() == [2.0, 5.0]
    for trained in surrogates:
        assert len(set(trained.data.smiles)) == len(trained.data.smiles)


def test_no_scaffold_is_in_two_folds(surrogates: list[Surrogate]) -> None:
    data = surrogates[0].data
    fold = surrogate.scaffold_folds(data, seed=0)
    assert set(fold.tolist()) == set(range(FOLD_COUNT))
    benzenes = [
        place
        for place, smiles in enumerate(data.smiles)
        if surrogate._scaffold(smiles) == "c1ccccc1"
    ]
    assert len(benzenes) > 100
    assert len(set(fold[benzenes].tolist())) == 1


def test_a_score_is_the_lines_of_the_training_table(surrogates: list[Surrogate]) -> None:
    score.load(surrogate.combined(surrogates))
    data = surrogates[0].data
    for row in (0, 500, 1_000):
        scored = score.score(data.smiles[row])
        assert not isinstance(scored, str)
        expected = [float(data.counts[row] @ s.weights + s.intercept) for s in surrogates]
        assert scored[:2] == pytest.approx(expected)
        assert scored[2] == 1.0


def test_the_known_share_falls_for_what_was_never_measured(surrogates: list[Surrogate]) -> None:
    score.load(surrogate.combined(surrogates))
    scored = score.score("CCO[Se]CC[As](C)C")
    assert not isinstance(scored, str)
    assert scored[2] < 0.9
    chain = score.score("C" * 200)
    assert not isinstance(chain, str)
    assert chain[2] < 0.5


@pytest.mark.parametrize(
    ("smiles", "reason"),
    [("C1CC", "not a valid SMILES"), ("C(C)(C)(C)(C)C", "valence"), ("c1cccc1", "kekulize")],
)
def test_an_unreadable_molecule_is_answered_with_the_reason(
    surrogates: list[Surrogate], smiles: str, reason: str
) -> None:
    score.load(surrogate.combined(surrogates))
    assert Chem.MolFromSmiles(smiles) is None
    answer = score.score(smiles)
    assert isinstance(answer, str)
    assert reason in answer
