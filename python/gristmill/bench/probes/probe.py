"""What a probe is, and what it is given."""

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

from gristmill.bench.dependencies import AfterParents
from gristmill.bench.interfaces import Backend, Future

#: Answers that are no numbers. The last two are of a task without an end, and of a program that was killed with it.
YES, NO, HANGS, DIES = 1.0, 0.0, -1.0, -2.0
WORDS = {YES: "yes", NO: "no", HANGS: "hangs", DIES: "the program dies"}
#: Seconds within which an executor has to do what it can do.
PATIENCE_S = 10.0
#: How often it is looked, seconds.
_LOOK_S = 0.005


class Hangs(Exception):
    """What was waited for did not come."""


@dataclass(frozen=True)
class Opened:
    """An executor with its workers, for a probe."""

    backend: Backend
    workers: int
    #: Where tasks leave signs of what they do.
    folder: Path
    #: Seconds from when it was opened to the result of its first task.
    first_s: float

    @property
    def itself(self) -> Any:
        """The executor without what the suite does for those that take no futures as arguments."""
        return self.backend.executor if isinstance(self.backend, AfterParents) else self.backend

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Meanwhile no worker is free: each runs a task that waits for the end of the block."""
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
    """Something that is tried, for one row of a table or some."""

    rows: tuple[str, ...]
    #: Gives the answer of each row. What it raises means "no".
    ask: Callable[[Opened], Mapping[str, float]]
    #: Whether the executor is told to end tasks after a second, if it can do that.
    is_limited: bool = False
    #: A distribution that has to be installed.
    needs: str | None = None


def yes(row: str, ask: Callable[[Opened], bool], **others: Any) -> Probe:
    """A probe of one row, whose answer is yes or no."""
    return Probe((row,), lambda opened: {row: YES if ask(opened) else NO}, **others)


def value(future: Future, seconds: float = PATIENCE_S) -> Any:
    """What a task returns; ``Hangs``: it takes too long."""
    try:
        return future.result(seconds)
    except TimeoutError as error:
        raise Hangs(f"nothing came within {seconds:g} s") from error


def wait_until(holds: Callable[[], bool]) -> None:
    """Waits for something; ``Hangs``: in vain."""
    if not comes(holds, PATIENCE_S):
        raise Hangs


def comes(holds: Callable[[], bool], seconds: float) -> bool:
    """Whether something happens within a time."""
    end = monotonic() + seconds
    while not holds():
        if monotonic() > end:
            return False
        sleep(_LOOK_S)
    return True


def nothing(number: int) -> int:
    """A task that does nothing."""
    return number


def stay(begun: str, gate: str) -> int:
    """A task that runs as long as there is a gate, and holds a lock on its sign; gives its process."""
    with open(begun, "w") as sign:
        fcntl.flock(sign, fcntl.LOCK_EX)
        while os.path.exists(gate):
            sleep(_LOOK_S)
    return os.getpid()


def runs(begun: Path) -> bool:
    """Whether the task that stays runs, which has that sign: its lock goes when it is ended, in whatever way."""
    with begun.open() as sign:
        try:
            fcntl.flock(sign, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def die_once(sign: str) -> str:
    """A task that kills its worker when it runs first."""
    try:
        open(sign, "x").close()
    except FileExistsError:
        return "again"
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("a process has outlived SIGKILL")
