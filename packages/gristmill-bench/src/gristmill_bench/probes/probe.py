"""Probes, the executor that they get, and the tasks that they share."""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from gristmill_bench.dependencies import AfterParents
from gristmill_bench.interfaces import Backend, Future

#: Answers that are no numbers. The last two mean a task that never ends, and a program that was killed with it.
YES, NO, HANGS, DIES = 1.0, 0.0, -1.0, -2.0
WORDS = {YES: "yes", NO: "no", HANGS: "hangs", DIES: "the program dies"}
#: Seconds within which an executor has to show a feature.
PATIENCE_S = 10.0
#: Seconds between two checks of a condition.
_LOOK_S = 0.005


class Hangs(Exception):
    """A result or an event that did not come in time."""


@dataclass(frozen=True)
class Opened:
    """An executor with its workers, for a probe."""

    backend: Backend
    workers: int
    #: Folder in which tasks leave signs of what they do.
    folder: Path
    #: Seconds from the opening of the executor to the result of its first task.
    first_s: float

    @property
    def itself(self) -> Any:
        """The executor itself, without the suite's support for futures as arguments."""
        return self.backend.executor if isinstance(self.backend, AfterParents) else self.backend

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Keeps all workers busy: each runs a task that waits for the end of the block."""
        gate = self.folder / "gate"
        gate.touch()
        blockers = [
            self.backend.submit(stay, str(self.folder / f"begun-{number}"), str(gate))
            for number in range(self.workers)
        ]
        try:
            for number in range(self.workers):
                wait_until((self.folder / f"begun-{number}").exists)
            yield
        finally:
            gate.unlink()
        for one in blockers:
            value(one)


@dataclass(frozen=True)
class Probe:
    """A trial that answers one row of a table, or several."""

    rows: tuple[str, ...]
    #: Function that returns the answer of each row. An exception means "no".
    ask: Callable[[Opened], Mapping[str, float]]
    #: True if the executor is asked to end tasks after a second, if it can.
    is_limited: bool = False
    #: Distribution that has to be installed.
    needs: str | None = None


def yes(row: str, ask: Callable[[Opened], bool], **others: Any) -> Probe:
    """Makes a probe of one row, whose answer is yes or no."""
    return Probe((row,), lambda opened: {row: YES if ask(opened) else NO}, **others)


def value(future: Future, seconds: float = PATIENCE_S) -> Any:
    """Returns the result of a task; raises ``Hangs`` if it takes too long."""
    try:
        return future.result(seconds)
    except TimeoutError as error:
        raise Hangs(f"nothing came within {seconds:g} s") from error


def wait_until(holds: Callable[[], bool]) -> None:
    """Waits until a condition holds; raises ``Hangs`` if it does not in time."""
    if not comes(holds, PATIENCE_S):
        raise Hangs


def comes(holds: Callable[[], bool], seconds: float) -> bool:
    """Returns whether a condition holds within some seconds."""
    end = monotonic() + seconds
    while not holds():
        if monotonic() > end:
            return False
        sleep(_LOOK_S)
    return True


def nothing(number: int) -> int:
    """Returns its argument and does nothing else."""
    return number


def stay(begun: str, gate: str) -> int:
    """Runs as long as the gate exists, and holds a lock on its sign; returns its process."""
    with open(begun, "w") as sign:
        fcntl.flock(sign, fcntl.LOCK_EX)
        while os.path.exists(gate):
            sleep(_LOOK_S)
    return os.getpid()


def runs(begun: Path) -> bool:
    """Returns whether the ``stay`` task with that sign runs; its lock goes when the task ends, in whatever way."""
    with begun.open() as sign:
        try:
            fcntl.flock(sign, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def die_once(sign: str) -> str:
    """Kills its worker on the first run, and returns on the second."""
    try:
        open(sign, "x").close()
    except FileExistsError:
        return "again"
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("a process has outlived SIGKILL")
