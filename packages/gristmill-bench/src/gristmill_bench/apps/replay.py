"""Replay of a recorded run: its graph, its times and its bytes, on another executor."""

from __future__ import annotations

import hashlib
import os
import time
from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, model_validator

from gristmill_bench.apps.base import App
from gristmill_bench.engine import Engine, TaskFuture
from gristmill_bench.errors import BenchError, WrongResult
from gristmill_bench.plugins import AbsolutePath
from gristmill_bench.replay.formats import read
from gristmill_bench.replay.recording import Recording

#: Bytes of a digest, which tells results apart.
_DIGEST = 16
#: File in the folder of a run with the number of each task that has begun, eight bytes each.
_WITNESS = "begun"


class Run(NamedTuple):
    """Outcome of a replay."""

    #: Digests of the results that no other task needs, by the number of the task.
    ends: dict[int, bytes]
    seconds: float
    workers: int
    #: Times that each task has begun; ``None`` without a witness file.
    begun: Counter[int] | None


def step(
    number: int, seconds: float, size: int, work: str, witness: str | None, *parents: bytes
) -> bytes:
    """Runs a task: takes its time, and returns its bytes after a digest of its origin."""
    if witness is not None:
        os.write(_opened(witness), number.to_bytes(8, "little"))
    if work == "spin":
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            pass
    elif seconds:
        time.sleep(seconds)
    return digest(number, [one[:_DIGEST] for one in parents]) + bytes(size)


def digest(number: int, parents: list[bytes]) -> bytes:
    """Returns a digest of a task and of all tasks before it.

    The right digest proves that the task ran after the right tasks.
    """
    return hashlib.blake2b(
        number.to_bytes(8, "little") + b"".join(parents), digest_size=_DIGEST
    ).digest()


@lru_cache(maxsize=1)
def _opened(path: str) -> int:
    """Opens the file for appending until the process ends, so that a task costs one system call."""
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)


class Replay(App):
    """A recorded run: a folder or JSON lines of Gristmill, JSON lines of TaPS, WfFormat, or a trace of Gristmill."""

    record: AbsolutePath
    #: Work of a task for its time: computing or sleeping.
    work: Literal["spin", "sleep"] = "sleep"
    #: Submission of the tasks: all at once, or at the recorded times.
    arrivals: Literal["recorded", "at-once"] = "at-once"
    #: Factors of all times, and of the bytes of results.
    scale: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    size_scale: Annotated[float, Field(ge=0, le=1e6)] = 1.0
    #: True if each task notes in a file that it has begun, which reveals a task that ran twice; on one machine only.
    witness: bool = True

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> Replay:
        recording = self.recording
        if self.arrivals == "recorded" and not recording.has_arrivals:
            raise BenchError(
                f"app.arrivals: {recording.source} does not say when tasks were submitted"
            )
        return self

    @property
    def recording(self) -> Recording:
        """The recorded run."""
        return read(self.record)

    def run(self, engine: Engine, folder: Path) -> Run:
        """Returns the digests of the results that no other task needs."""
        tasks = self.recording.tasks
        file = folder.resolve() / _WITNESS
        if self.witness:
            file.touch()
        witness = str(file) if self.witness else None
        needed = {parent for task in tasks for parent in task.parents}
        # The program drops a future after its last use, so that large results do not stay in memory.
        last = {parent: place for place, task in enumerate(tasks) for parent in task.parents}
        futures: dict[int, TaskFuture[bytes]] = {}
        ends: dict[int, TaskFuture[bytes]] = {}
        begun = time.perf_counter()
        for number, task in enumerate(tasks):
            if self.arrivals == "recorded":
                _sleep_until(begun + task.submitted * self.scale)
            size = round(task.size * self.size_scale)
            given = [futures[parent] for parent in task.parents]
            future = engine.submit(
                step, number, task.seconds * self.scale, size, self.work, witness, *given
            )
            (futures if number in needed else ends)[number] = future
            for parent in set(task.parents):
                if last[parent] == number:
                    del futures[parent]
        found = {number: future.result()[:_DIGEST] for number, future in ends.items()}
        seconds = time.perf_counter() - begun
        return Run(found, seconds, engine.workers, _counted(file) if self.witness else None)

    def check(self, result: Run) -> str:
        """Checks that every task ran once, and after the tasks that it needs."""
        tasks = self.recording.tasks
        right: list[bytes] = []
        for number, task in enumerate(tasks):
            right.append(digest(number, [right[parent] for parent in task.parents]))
        for number, found in result.ends.items():
            if found != right[number]:
                raise WrongResult(
                    f"task {tasks[number].name!r} did not run behind all that it needs"
                )
        if result.begun is not None:
            wrong = [one for one in range(len(tasks)) if result.begun[one] != 1]
            if wrong:
                name, count = tasks[wrong[0]].name, result.begun[wrong[0]]
                raise WrongResult(f"task {name!r} has begun {count} times, not once")
        failed = self.recording.failed
        return f"{len(tasks)} tasks of {self.recording.source.name}" + (
            f", {failed} of which had failed and take no time" if failed else ""
        )

    def figures(self, result: Run) -> dict[str, float]:
        """Returns the seconds of this run, of the recorded run, of the graph's critical path, and the lower bound."""
        recording, scale = self.recording, self.scale
        recorded = {} if recording.makespan is None else {"recorded_s": recording.makespan * scale}
        return {
            "replayed_s": result.seconds,
            **recorded,
            "critical-path_s": recording.critical_path * scale,
            "bound_s": recording.bound(result.workers) * scale,
        }


def _sleep_until(when: float) -> None:
    left = when - time.perf_counter()
    if left > 0:
        time.sleep(left)


def _counted(file: Path) -> Counter[int]:
    noted = file.read_bytes()
    file.unlink()
    places = range(0, len(noted), 8)
    return Counter(int.from_bytes(noted[one : one + 8], "little") for one in places)
