"""Instructions of a task, counted by callgrind: those of the client and of its worker.

A count does not depend on what else the machine does, so it decides where times do not. Two runs with different numbers
of tasks are subtracted, which leaves out start and end. What the client polls while a task runs counts too.
"""

import random
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from benches.compare import counted_tasks
from benches.compare.builds import Build
from benches.compare.ratios import Estimate, estimate, gains

#: The numbers of tasks of the two runs.
FEW, MANY = 2_000, 42_000
#: Triples of counts.
ROUNDS = 3
#: A commit may need this many times the instructions of the one before it.
ALLOWED = 1.02
#: Seconds after which a run hangs. Callgrind makes a program about fifty times as slow.
TIMEOUT_S = 600


class Counter:
    """Counts by the valgrind on `PATH`. Raises ``OSError`` if that cannot run the engine."""

    def __init__(self) -> None:
        self.valgrind = shutil.which("valgrind")
        if self.valgrind is None:
            raise OSError("instructions are not counted: there is no valgrind")

    def per_task(self, row: str, build: Build) -> float:
        """Returns the instructions of a task of this row."""
        few, many = (self._total(row, count, build) for count in (FEW, MANY))
        return (many - few) / (MANY - FEW)

    def check(self, build: Build) -> None:
        """Raises ``OSError`` if this valgrind cannot run the engine."""
        self._total("submit", 1, build)

    def _total(self, row: str, count: int, build: Build) -> int:
        """Returns the instructions of the client and the worker that ran so many tasks."""
        with tempfile.TemporaryDirectory(prefix="gb-", ignore_cleanup_errors=True) as name:
            folder = Path(name)
            counted = [
                str(self.valgrind),
                "--tool=callgrind",
                f"--callgrind-out-file={folder}/count.%p",
                sys.executable,
            ]
            interpreter = folder / "python"
            interpreter.write_text(f'#!/bin/sh\nexec {shlex.join(counted)} "$@"\n')
            interpreter.chmod(0o700)
            command = [*counted, counted_tasks.__file__, row, str(count), str(interpreter)]
            try:
                done = subprocess.run(
                    command,
                    cwd=folder,
                    env=build.environment(),
                    capture_output=True,
                    text=True,
                    check=True,
                    timeout=TIMEOUT_S,
                )
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
                raise OSError(
                    f"instructions are not counted: this needs a valgrind that knows pidfd_open, "
                    f"such as 3.24: {error}: {str(error.stderr)[-1000:]}"
                ) from error
            return sum(total(folder / f"count.{process}") for process in done.stdout.split())


def total(file: Path) -> int:
    """Reads the instructions of a process from a file of callgrind."""
    with file.open() as lines:
        for line in lines:
            if line.startswith("totals:"):
                return int(line.split()[1])
    raise OSError(f"{file.name} has no totals")


def compare(counter: Counter, row: str, builds: Mapping[str, Build]) -> tuple[Estimate, Estimate]:
    """Counts a row on the builds `base`, `head` and `again`; returns head against base, and head against itself."""
    order = random.Random(0)
    counts: dict[str, list[float]] = {side: [] for side in builds}
    for number in range(ROUNDS):
        for side in order.sample(list(builds), len(builds)):
            counts[side].append(counter.per_task(row, builds[side]))
        print(f"{row}: instructions, round {number + 1} of {ROUNDS}", file=sys.stderr)
    return (
        estimate(gains(counts["base"], counts["head"], "lower")),
        estimate(gains(counts["again"], counts["head"], "lower")),
    )


def verdict(found: Estimate, same: Estimate) -> str:
    """Says in a word or two whether a commit needs more instructions than are allowed.

    Counts of one build differ by what the client polls. If they differ by as much as is allowed, they decide nothing.
    """
    if max(1 - same.low, same.high - 1) > ALLOWED - 1:
        return "not resolved"
    if found.ratio < 1 / ALLOWED:
        return "WORSE"
    return "better" if found.ratio > ALLOWED else "not worse"
