"""The program whose instructions are counted: so many tasks of a row, on one worker.

`python counted_tasks.py ROW COUNT INTERPRETER` prints the process ids of the client and of the worker. The worker is
started with INTERPRETER. The functions are builtin, so that a task costs what the engine costs.
"""

import operator
import os
import sys
from collections.abc import Callable

import gristmill


def submit(executor: gristmill.Executor, count: int) -> None:
    """Submits all tasks, then takes their results."""
    for future in [executor.submit(operator.index, number) for number in range(count)]:
        future.result()


def call(executor: gristmill.Executor, count: int) -> None:
    """Waits for each task before the next one is submitted."""
    for number in range(count):
        executor.submit(operator.index, number).result()


def mapped(executor: gristmill.Executor, count: int) -> None:
    """Takes the results of a map."""
    for _ in executor.map(operator.index, range(count)):
        pass


def chain(executor: gristmill.Executor, count: int) -> None:
    """Makes each task depend on the one before it."""
    link = executor.submit(operator.index, 0)
    for _ in range(count - 1):
        link = executor.submit(operator.index, link)
    link.result()


PROGRAMS: dict[str, Callable[[gristmill.Executor, int], None]] = {
    "submit": submit,
    "call": call,
    "map": mapped,
    "chain": chain,
}


def main() -> None:
    """Runs one of the programs."""
    row, count, sys.executable = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    with gristmill.Executor(max_workers=1) as executor:
        worker = executor.submit(os.getpid).result()
        PROGRAMS[row](executor, count)
    print(os.getpid(), worker)


if __name__ == "__main__":
    main()
