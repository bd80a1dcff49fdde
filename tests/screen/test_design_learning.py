"""The surrogate learns from simulated molecules, and the next batch has the molecules that it predicts to be best."""

import pytest

from molecular_screen.design import learning
from molecular_screen.design.learning import Choice
from molecular_screen.design.simulation import Simulation

CHAINS = ["C" * size for size in range(4, 12)]


def simulated(smiles: list[str], values: list[float | None]) -> list[Simulation]:
    return [Simulation(each, value) for each, value in zip(smiles, values, strict=True)]


def predicted(line: learning.Line, smiles: str) -> float:
    return learning.infer(line, learning.environments(smiles))


def test_the_surrogate_follows_what_it_has_seen() -> None:
    line = learning.train(simulated(CHAINS, [12.0 - 0.2 * len(each) for each in CHAINS]))
    for smiles in CHAINS:
        assert predicted(line, smiles) == pytest.approx(12.0 - 0.2 * len(smiles), abs=0.1)
    assert predicted(line, "C" * 20) < predicted(line, "C" * 12) < predicted(line, "C" * 11)


def test_failed_simulations_teach_nothing() -> None:
    good = simulated(["CCCC", "CCCN"], [10.0, 9.0])
    without, with_failures = (
        learning.train(good + more) for more in ([], simulated(["CCCO"], [None]))
    )
    assert predicted(without, "CCCO") == predicted(with_failures, "CCCO")
    assert predicted(learning.train(simulated(["CCCO"], [None])), "CCCO") == 0.0


def test_the_best_predicted_are_chosen_of_equal_ones_the_earlier() -> None:
    chosen = learning.choose(["a", "b", "c", "d"], [1.0, 3.0, 2.0, 3.0], [], 3)
    assert chosen == [Choice("b", 3.0), Choice("d", 3.0), Choice("c", 2.0)]


def test_what_was_taken_is_not_chosen_again() -> None:
    taken = [[Choice("b", None)], [Choice("d", 2.0)]]
    chosen = learning.choose(["a", "b", "c", "d"], [1.0, 3.0, 2.0, 3.0], taken, 3)
    assert [choice.smiles for choice in chosen] == ["c", "a"]
