"""The cost of the garbage collector for a whole run: runs with it and without it alternate.

Source of the idea: "Towards Fine-grained Parallelism in Parallel and Distributed Python Libraries", figure 9, right.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from statistics import median
from tempfile import TemporaryFile
from time import perf_counter
from typing import NamedTuple

from gristmill import _starting


class CannotCompare(Exception):
    """An error for a failed run of a comparison. The text says which run."""


class Runs(NamedTuple):
    """The times of runs, seconds: the median, the shortest, the longest."""

    value: float
    low: float
    high: float
    samples: int


class Comparison(NamedTuple):
    """The times of whole runs, seconds."""

    collecting: Runs
    not_collecting: Runs

    @property
    def ratio(self) -> float:
        """The time without the collector divided by the time with it."""
        return self.not_collecting.value / self.collecting.value

    def text(self) -> str:
        """Returns a line of text about the comparison."""
        on, off = self.collecting, self.not_collecting
        return (
            f"whole runs: {on.value:.3f} s with the collector ({on.low:.3f} to {on.high:.3f}),"
            f" {off.value:.3f} s without ({off.low:.3f} to {off.high:.3f}),"
            f" {on.samples} of each in turns: {self.ratio:.3f}"
        )


def compare(program: Sequence[str], repeats: int) -> Comparison:
    """Runs a program ``repeats`` times with its collector and as often without, without input, its output discarded.

    :raises CannotCompare: a run did not end with 0, or was interrupted.
    """
    samples: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(repeats):
        for collects, seconds in samples.items():
            instructions = {
                "ready": None,
                "go": None,
                "notes": None,
                "sample": 0,
                "collects": collects,
            }
            words = [json.dumps(instructions), *program]
            command = _starting.command("gristmill._profile.program", *words, has_flags=False)
            seconds.append(_run(command, "with" if collects else "without"))
    return Comparison(*(_runs(samples[collects]) for collects in (True, False)))


def _run(command: list[str], state: str) -> float:
    """Returns the seconds until a run has ended. Processes that it leaves behind may go on."""
    # A file, not a pipe: the other end of a pipe would stay open while any process that the run has started lives.
    with TemporaryFile() as errors:
        begun = perf_counter()
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env={**os.environ, **_starting.variables()},
                check=False,
            )
        except KeyboardInterrupt:
            # Raises an error that keeps the results so far.
            raise CannotCompare("it was interrupted") from None
        seconds = perf_counter() - begun
        if done.returncode != 0:
            errors.seek(0)
            said = errors.read().decode(errors="replace").strip().splitlines()[-1:]
            raise CannotCompare(
                f"a run {state} the collector ended with {done.returncode}: {' '.join(said)}"
            )
    return seconds


def _runs(seconds: Sequence[float]) -> Runs:
    return Runs(median(seconds), min(seconds), max(seconds), len(seconds))
