"""The loop on the engine: it finds the optimum, tolerates failures, and depends on its seed alone."""

import os
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

import gristmill
import gristmill.parsl as parsl
from molecular_screen.design import campaign, learning, run, simulation
from molecular_screen.design.learning import Choice
from molecular_screen.design.outcome import Design, Plan, Round, best_mean_ev
from molecular_screen.design.simulation import Simulation

PLAN = Plan(rounds=2, batch=3, seed=3)
OPTIMUM = "FC(F)(F)C(F)(F)F"
TINY = [
    *("CCCC", "CCCO", "CCCN", "CC=O", "CCC#N", "C=CC=C", "CCCl", "CCS", "CC(C)=O", "CCOC"),
    *("CC(F)F", "C1CCC1", "CCBr", "C=CC=O", "NCCN", "OCCO", "FCCF", "FC(F)CF", "FC(F)C(F)F"),
    OPTIMUM,
]
UNUSUAL = "C[Se]C"


def designed(candidates: list[str], plan: Plan) -> tuple[Design, list[Round]]:
    told: list[Round] = []
    return run.run(candidates, 2, plan, told.append), told


@pytest.fixture(scope="module")
def design() -> Design:
    return designed([*TINY, UNUSUAL], PLAN)[0]


def values(simulations: list[Simulation]) -> list[tuple[str, float | None]]:
    return [(each.smiles, each.ionisation_ev) for each in simulations]


def test_the_loop_finds_the_optimum_of_a_small_library(design: Design) -> None:
    everything = [simulation.simulate(smiles) for smiles in TINY]
    best = max(everything, key=lambda each: each.ionisation_ev or 0.0)
    assert best.smiles == OPTIMUM
    assert OPTIMUM not in {choice.smiles for choice in design.rounds[0].chosen}
    assert design.best_until(PLAN.rounds) == best.ionisation_ev
    assert len(design.simulations) < len(TINY)


def test_the_loop_does_better_than_as_many_random_simulations(design: Design) -> None:
    assert len(design.random) == len(design.simulations) == PLAN.first_count + 6
    assert best_mean_ev(design.simulations) > best_mean_ev(design.random)
    assert design.random[: PLAN.first_count] == design.rounds[0].simulations


def test_every_value_is_the_one_of_a_direct_call(design: Design) -> None:
    for smiles, value in values(design.simulations + design.random):
        assert value == simulation.simulate(smiles).ionisation_ev


def test_a_prediction_is_made_before_its_molecule_is_simulated(design: Design) -> None:
    line = learning.train(design.rounds[0].simulations)
    for choice in design.rounds[1].chosen:
        expected = learning.infer(line, learning.environments(choice.smiles))
        assert choice.predicted_ev == pytest.approx(expected, abs=1e-9)


def test_no_molecule_is_simulated_twice_by_the_loop(design: Design) -> None:
    smiles = [each.smiles for each in design.simulations]
    assert len(set(smiles)) == len(smiles)


def test_a_molecule_that_fails_does_not_stop_the_loop() -> None:
    found, _ = designed([*TINY[:6], UNUSUAL], Plan(rounds=2, batch=3))
    assert [each.smiles for each in found.failures] == [UNUSUAL]
    assert sum(each.ionisation_ev is not None for each in found.simulations) == 6


def test_the_same_seed_gives_the_same_run_and_another_one_another(design: Design) -> None:
    again, told = designed([*TINY, UNUSUAL], PLAN)
    assert told == again.rounds
    assert [each.chosen for each in again.rounds] == [each.chosen for each in design.rounds]
    assert values(again.simulations) == values(design.simulations)
    assert values(again.random) == values(design.random)


def test_rounds_end_when_no_molecule_is_left() -> None:
    found, _ = designed(TINY[:5], Plan(rounds=4, batch=2))
    assert [len(each.simulations) for each in found.rounds] == [4, 1]


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[None]:
    with parsl.load(run._config(2, str(tmp_path))):
        yield


@pytest.mark.usefixtures("kernel")
def test_a_worker_of_the_loop_has_one_thread() -> None:
    @parsl.python_app  # type: ignore[untyped-decorator, unused-ignore]
    def thread_count() -> str | None:
        return os.environ.get("OMP_NUM_THREADS")

    assert thread_count().result() == "1"


@pytest.mark.usefixtures("kernel")
def test_the_next_batch_is_chosen_while_the_second_half_of_this_one_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held: Future[Simulation] = Future()
    chains = ["C" * size for size in range(2, 10)]

    def simulate(smiles: str) -> "Future[Simulation]":
        if smiles == chains[-2]:
            return held
        future: Future[Simulation] = Future()
        future.set_result(Simulation(smiles, float(len(smiles))))
        return future

    monkeypatch.setattr(campaign, "simulate", simulate)
    first = [Choice(smiles, None) for smiles in chains[:3]]
    batches = campaign.campaign(chains, first, Plan(rounds=2, batch=2))
    assert [choice.smiles for choice in batches[1].chosen.result()] == [chains[-1], chains[-2]]
    assert len(batches[2].chosen.result()) == 2
    assert not batches[1].behind.done()
    held.set_result(Simulation(chains[-2], 8.0))
    assert batches[1].behind.result() == [held.result()]


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize(
    "failure", [gristmill.WorkerLostError("killed"), gristmill.TaskTimeoutError("slow")]
)
def test_a_simulation_that_loses_its_worker_costs_one_molecule(
    failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def simulate(smiles: str) -> "Future[Simulation]":
        future: Future[Simulation] = Future()
        if smiles == "CCN":
            future.set_exception(failure)
        else:
            future.set_result(Simulation(smiles, 10.0))
        return future

    monkeypatch.setattr(campaign, "simulate", simulate)
    chosen = [Choice(smiles, None) for smiles in ("CCO", "CCN", "CCC")]
    done, lost, other = campaign.simulate_each(chosen, 0, None).result()
    assert (done.ionisation_ev, other.ionisation_ev) == (10.0, 10.0)
    assert lost.ionisation_ev is None
    assert type(failure).__name__ in lost.failure
