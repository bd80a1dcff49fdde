"""A recorded run once more: its graph, its times and its bytes, on another executor."""

from __future__ import annotations

import hashlib
import os
import time
from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, model_validator

from gristmill.bench.apps.base import App
from gristmill.bench.engine import Engine, TaskFuture
from gristmill.bench.errors import BenchError, WrongResult
from gristmill.bench.plugins import AbsolutePath
from gristmill.bench.replay.formats import read
from gristmill.bench.replay.recording import Recording

#: What tells results apart, bytes.
_DIGEST = 16
#: In the folder of a run: the number of each task that has begun, eight bytes each.
_WITNESS = "begun"


class Run(NamedTuple):
    """What came of a replay."""

    #: What tasks have returned that nobody needs, by number; without their bytes.
    ends: dict[int, bytes]
    seconds: float
    workers: int
    #: How often tasks have begun; nobody looked.
    begun: Counter[int] | None


def step(
    number: int, seconds: float, size: int, work: str, witness: str | None, *parents: bytes
) -> bytes:
    """A task: takes its time, and returns its bytes behind a digest of where they come from."""
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
    """Names a task and all that was run before it: who has the right one has run behind the right ones."""
    return hashlib.blake2b(
        number.to_bytes(8, "little") + b"".join(parents), digest_size=_DIGEST
    ).digest()


@lru_cache(maxsize=1)
def _opened(path: str) -> int:
    """Open for appending for as long as the process lives: a task costs one call of the system."""
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)


class Replay(App):
    """A recorded run: a folder of ours, lines of JSON of ours or of TaPS, WfFormat, or a trace of ours."""

    record: AbsolutePath
    #: Whether tasks compute for their time, or sleep.
    work: Literal["spin", "sleep"] = "sleep"
    #: When they are submitted: all at once, or when they were.
    arrivals: Literal["recorded", "at-once"] = "at-once"
    #: What times are multiplied by, and bytes of results.
    scale: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    size_scale: Annotated[float, Field(ge=0, le=1e6)] = 1.0
    #: Whether each task notes in a file that it has begun, so that one that ran twice is seen: on one machine only.
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
        """What was recorded."""
        return read(self.record)

    def run(self, engine: Engine, folder: Path) -> Run:
        """Gives what the tasks have returned that no other needs."""
        tasks = self.recording.tasks
        file = folder.resolve() / _WITNESS
        if self.witness:
            file.touch()
        witness = str(file) if self.witness else None
        needed = {parent for task in tasks for parent in task.parents}
        # Futures are dropped as soon as nobody needs them: large results are not kept for nothing.
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
        """Every task ran once, and behind those that it needs."""
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
        """Seconds: of this run, of the recorded one, of the longest way through the graph, and of what bounds it."""
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
