"""Execution of a design loop on its own kernel, followed by the same number of random simulations."""

import random
import tempfile
import time
from collections.abc import Callable, Sequence

import gristmill.parsl as parsl
from molecular_screen.design import campaign, learning, simulation
from molecular_screen.design.campaign import Batch, simulate_each
from molecular_screen.design.learning import Choice
from molecular_screen.design.outcome import Design, Plan, Round


def run(
    candidates: Sequence[str], workers: int, plan: Plan, tell: Callable[[Round], object]
) -> Design:
    """Runs the loop, and calls `tell` with each round when it has ended.

    # Errors

    `ConfigurationError` while the program has another kernel loaded.
    """
    drawn = random.Random(plan.seed).sample(list(candidates), len(candidates))
    shuffled = [Choice(smiles, None) for smiles in drawn]
    with tempfile.TemporaryDirectory() as folder, parsl.load(_config(workers, folder)) as kernel:
        start = time.perf_counter()
        rounds: list[Round] = []
        for batch in campaign.campaign(candidates, shuffled[: plan.first_count], plan):
            ended = _ended(len(rounds), batch, start)
            if ended.chosen:
                rounds.append(ended)
                tell(ended)
        loop_s = time.perf_counter() - start
        task_count = kernel.task_count
        budget = sum(len(each.chosen) for each in rounds)
        by_chance = simulate_each(shuffled[:budget], 0, None).result()
    return Design(
        plan=plan,
        candidate_count=len(candidates),
        rounds=rounds,
        random=by_chance,
        workers=workers,
        task_count=task_count,
        loop_s=loop_s,
    )


def _config(workers: int, folder: str) -> parsl.Config:
    """Returns a configuration with one thread a worker: more OpenMP threads would compete for the cores."""
    return parsl.Config(
        executors=[
            parsl.GristmillExecutor(
                max_workers=workers,
                threads_per_worker=1,
                preload=(simulation.__name__, learning.__name__),
            )
        ],
        loss_retries=1,
        run_dir=folder,
        initialize_logging=False,
    )


def _ended(number: int, batch: Batch, start: float) -> Round:
    """Waits for a batch."""
    chosen = batch.chosen if number == 0 else batch.chosen.result()
    simulations = [*batch.ahead.result(), *batch.behind.result()]
    return Round(number, chosen, simulations, time.perf_counter() - start)
