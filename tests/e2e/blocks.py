"""Programs of ours whose Slurm jobs come and go: ``blocks.py WAY FOLDER [ARGUMENTS]``.

Each program runs under Gristmill's kernel without retries: a task that is lost after its begin fails the program.
"""

from __future__ import annotations

import collections
import sys
from collections.abc import Callable
from concurrent.futures import as_completed
from typing import Any

import gristmill.parsl as parsl
from gristmill.parsl import GristmillExecutor

from placed import slurm

#: Durations of a short and a long task, seconds. The short one is short beside the time in which a job drains.
SHORT_S, LONG_S = 0.2, 6.0
#: Tasks that are submitted ahead of the one that is waited for: more than the workers of all jobs.
AHEAD = 12
#: Tasks between two long ones.
LONG_EVERY = 40
#: Tasks that the newest job runs before the program ends.
ENOUGH = 4


def work(number: int, seconds: float, folder: str) -> tuple[int, str]:
    """Notes that it has begun, and takes its time; returns its number and the job that it has run in."""
    import os
    import time

    import calls

    calls.append(f"{folder}/begun", str(number))
    time.sleep(seconds)
    return number, os.environ["SLURM_JOB_ID"]


def hold(gate: str) -> str:
    """Waits at the gate; returns the job that it has run in."""
    import os

    import calls

    calls.enter(gate)
    return os.environ["SLURM_JOB_ID"]


def load(provider: Any, workers: int, **scaling: Any) -> Any:
    """Loads the kernel with one executor in the blocks of a provider."""
    executor = GristmillExecutor(provider=provider, max_workers_per_node=workers)
    return parsl.load(parsl.Config(executors=[executor], retries=0, **scaling))


def outlive(folder: str, blocks: str) -> None:
    """Runs tasks until more jobs have run some than may exist at a time; prints the number of tasks of each job."""
    provider = slurm("00:01:00", init_blocks=1, max_blocks=int(blocks))
    with load(provider, 2):
        short, long = parsl.python_app(work), parsl.python_app(_long())
        futures: collections.deque[Any] = collections.deque()
        ran: dict[str, int] = {}
        for number in range(sys.maxsize):
            app, seconds = (short, SHORT_S) if number % LONG_EVERY else (long, LONG_S)
            futures.append(app(number, seconds, folder))
            if len(futures) > AHEAD:
                count(futures, ran)
            if len(ran) > int(blocks) and list(ran.values())[-1] >= ENOUGH:
                break
        while futures:
            count(futures, ran)
    print(*(f"{job}:{tasks}" for job, tasks in ran.items()))


def _long() -> Callable[..., tuple[int, str]]:
    """Returns a function that is not ``work``: the engine learns its duration separately."""

    def work_long(number: int, seconds: float, folder: str) -> tuple[int, str]:
        return work(number, seconds, folder)

    return work_long


def count(futures: collections.deque[Any], ran: dict[str, int]) -> None:
    """Waits for the oldest task, and counts it for its job."""
    _, job = futures.popleft().result()
    ran[job] = ran.get(job, 0) + 1


def rest(gate: str, strategy: str) -> None:
    """Holds two tasks on request, then one more; prints the job of each."""
    provider = slurm(init_blocks=0, min_blocks=0, max_blocks=2)
    with load(provider, 1, strategy=strategy, max_idletime=1.0, strategy_period=0.2):
        app = parsl.python_app(hold)
        for held in (2, 1):
            print("ready", flush=True)
            sys.stdin.readline()
            for future in as_completed([app(gate) for _ in range(held)]):
                print(future.result(), flush=True)


if __name__ == "__main__":
    {"outlive": outlive, "rest": rest}[sys.argv[1]](*sys.argv[2:])
