"""The loop as a Parsl program: apps that return futures, and a campaign that never waits for one.

All rounds are submitted at once; the data-flow kernel runs each task as soon as its inputs exist. A round's surrogate
does not wait for the second half of the batch before it: those simulations still run while it is trained and used, so
that no worker idles between rounds. The set of simulations that it learns from is fixed nevertheless, so the same seed
gives the same run.
"""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

import gristmill.parsl as parsl
from molecular_screen.design import learning, simulation
from molecular_screen.design.learning import Choice, Line
from molecular_screen.design.outcome import Plan
from molecular_screen.design.simulation import Simulation

SIMULATION_S_MAX = 120
"""The time limit of a simulation, seconds: a hundred times what the longest takes. A slower one is interrupted."""


@parsl.python_app(cache=True)  # type: ignore[untyped-decorator]
def simulate(smiles: str, walltime: float = SIMULATION_S_MAX) -> Simulation:
    """Runs the quantum chemistry of one molecule, only once even if it is requested several times."""
    return simulation.simulate(smiles)


@parsl.python_app
def environments(smiles: str) -> dict[int, int]:
    """Computes the fingerprint of one candidate."""
    return learning.environments(smiles)


@parsl.python_app
def train(batches: list[list[Simulation]]) -> Line:
    """Fits the surrogate to all simulations of some batches."""
    return learning.train(each for batch in batches for each in batch)


@parsl.python_app
def infer(line: Line, found: dict[int, int]) -> float:
    """Predicts one candidate. The campaign has very many of these tasks."""
    return learning.infer(line, found)


@parsl.python_app
def choose(
    candidates: list[str], predicted_ev: list[float], taken: list[list[Choice]], count: int
) -> list[Choice]:
    """Chooses the next batch once everything is predicted."""
    return learning.choose(candidates, predicted_ev, taken, count)


@parsl.join_app
def next_batch(
    line: Line, candidates: list[str], found: list[dict[int, int]], taken: list[Any], count: int
) -> Any:
    """Predicts every candidate with the surrogate, one a task, and chooses."""
    predicted_ev = [infer(line, each) for each in found]
    return choose(candidates, predicted_ev, taken, count)


@parsl.join_app
def simulate_each(chosen: list[Choice], start: int, stop: int | None) -> Any:
    """Simulates a part of a batch, one molecule a task. A failed simulation does not affect the others."""
    return [settled(choice.smiles, simulate(choice.smiles)) for choice in chosen[start:stop]]


def settled(smiles: str, simulated: "Future[Simulation]") -> "Future[Simulation]":
    """Returns a future that does not fail: a lost worker or a timeout becomes a failed simulation."""
    outcome: Future[Simulation] = Future()

    def settle(done: "Future[Simulation]") -> None:
        try:
            outcome.set_result(done.result())
        except Exception as failure:
            reason = f"{type(failure).__name__}: {failure}"
            outcome.set_result(Simulation(smiles, None, reason))

    simulated.add_done_callback(settle)
    return outcome


class Batch(NamedTuple):
    """The futures of one batch: the choices, and the simulations in two parts."""

    chosen: Any
    ahead: Any
    behind: Any


def campaign(candidates: Sequence[str], first: list[Choice], plan: Plan) -> list[Batch]:
    """Submits the whole campaign. Returns the futures of its batches, including the first one."""
    found = [environments(smiles) for smiles in candidates]
    batches = [Batch(first, simulate_each(first, 0, None), simulate_each(first, 0, 0))]
    learned = [batches[0].ahead]
    half = (plan.batch + 1) // 2
    for _ in range(plan.rounds):
        line = train(learned)
        taken = [batch.chosen for batch in batches]
        chosen = next_batch(line, list(candidates), found, taken, plan.batch)
        ahead = simulate_each(chosen, 0, half)
        behind = simulate_each(chosen, half, None)
        learned = [*learned, batches[-1].behind, ahead]
        batches.append(Batch(chosen, ahead, behind))
    return batches
