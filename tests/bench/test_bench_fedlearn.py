"""Federated learning averages the models of its clients, honours every field, and detects a wrong result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gristmill_bench import BenchError, ExecutorPlugin, WrongResult
from gristmill_bench.apps import fedlearn
from gristmill_bench.apps.fedlearn import FedLearn
from gristmill_bench.apps.perceptron import Update, digits
from gristmill_bench.plugins import make

from applications import EXECUTORS, run

FEW_CLIENTS = FedLearn(clients=3, rounds=2, hidden=16, accuracy=0.5)


@pytest.mark.slow
@pytest.mark.parametrize("executor", EXECUTORS, ids=lambda one: type(one).__name__)
def test_a_model_is_learned_on_any_executor(executor: ExecutorPlugin, tmp_path: Path) -> None:
    assert FEW_CLIENTS.check(run(FEW_CLIENTS, tmp_path, executor))


@pytest.mark.slow
def test_a_model_that_is_not_the_mean_of_all_learns_too_little(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def heaviest(*updates: Update) -> Any:
        return max(updates, key=lambda update: update.images).weights

    app = FedLearn()
    assert app.check(run(app))
    monkeypatch.setattr(fedlearn, "average", heaviest)
    learned = run(app)
    assert learned.accuracies[-1] < app.accuracy
    with pytest.raises(WrongResult, match="not the mean"):
        app.check(learned)


def test_a_wrong_model_is_seen() -> None:
    learned = run(FEW_CLIENTS)
    first = [learned.weights[0] + 1e-6, *learned.weights[1:]]
    for wrong, says in [
        (learned._replace(weights=first), "not the mean"),
        (learned._replace(weights=learned.weights[:3]), "not the mean"),
        (learned._replace(updates=learned.updates[1:]), "the clients of the last round"),
        (learned._replace(accuracies=[0.5, 0.5]), "right, not 50"),
        (learned._replace(accuracies=learned.accuracies[1:]), "1 rounds"),
    ]:
        with pytest.raises(WrongResult, match=says):
            FEW_CLIENTS.check(wrong)
    with pytest.raises(WrongResult, match=r"right, less than app\.accuracy, 100"):
        FEW_CLIENTS.model_copy(update={"accuracy": 1.0}).check(learned)


@pytest.mark.parametrize(
    "field",
    [
        {"clients": 3},
        {"participation": 0.5},
        {"epochs": 2},
        {"batch_size": 20},
        {"learning_rate": 0.1},
        {"alpha": 5.0},
        {"alpha": None},
        {"seed": 2},
    ],
    ids=str,
)
def test_every_field_counts(field: dict[str, Any]) -> None:
    base = {"clients": 2, "rounds": 1, "hidden": 4, "epochs": 1}
    one, other = (run(FedLearn.model_validate(fields)) for fields in (base, base | field))
    assert abs(one.weights[0] - other.weights[0]).max() > 1e-4


@pytest.mark.slow
def test_labels_are_skewed_as_asked() -> None:
    run(FEW_CLIENTS)
    import numpy as np

    def most_of_one_label(alpha: float | None) -> float:
        shares = FedLearn(clients=10, alpha=alpha).plan().shares
        counts = [np.bincount(digits()[1][share]) for share in shares if len(share) > 20]
        return float(np.mean([count.max() / count.sum() for count in counts]))

    assert most_of_one_label(None) < 0.2 < most_of_one_label(1.0) < most_of_one_label(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [None, 0.3, 0.001])
def test_every_image_is_held_out_or_one_clients_own(alpha: float | None) -> None:
    run(FEW_CLIENTS)
    import numpy as np

    plan = FedLearn(clients=20, alpha=alpha).plan()
    images = np.concatenate([plan.held_out, *plan.shares])
    assert sorted(images.tolist()) == list(range(1797))
    assert all(len(share) for share in plan.shares)


def test_a_share_of_the_clients_is_drawn_each_round() -> None:
    run(FEW_CLIENTS)
    drawn = FedLearn(clients=10, participation=0.3, alpha=None, rounds=20).plan().rounds
    assert {len(set(one)) for one in drawn} == {3}
    assert {client for one in drawn for client in one} == set(range(10))
    assert {len(one) for one in FedLearn(participation=0.01).plan().rounds} == {1}


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"participation": 0}, "app.participation"),
        ({"alpha": -1}, "app.alpha"),
        ({"rounds": 0}, "app.rounds"),
    ],
)
def test_what_makes_no_sense_is_refused(fields: dict[str, Any], says: str) -> None:
    if missing := FedLearn.missing():
        pytest.skip(missing)
    with pytest.raises(BenchError, match=says):
        make("app", "fedlearn", fields)
