"""How it is noted that a task has ended: by the first callback of its future, which calls those that wait for that."""

from __future__ import annotations

from collections.abc import Callable
from time import time
from typing import TYPE_CHECKING, Any

import msgspec

from gristmill.bench.call import Answer
from gristmill.bench.ended import Ended, Failure
from gristmill.bench.errors import BenchError
from gristmill.bench.interfaces import Future, Records

if TYPE_CHECKING:
    from gristmill.bench.engine import TaskFuture


class Tally:
    """What an engine and those within it count together."""

    __slots__ = ("callbacks", "lost", "submitted", "unnoted")

    def __init__(self) -> None:
        self.submitted = 0
        #: Tasks of which nothing was noted yet.
        self.unnoted: set[int] = set()
        #: Why tasks could not be noted, one for each.
        self.lost: list[Exception] = []
        #: What is called once a task is noted, by its number: executors are given one callback of each task, as a
        #: second one costs some of them more than all else. Each use is one operation of the dict, so it needs no lock.
        self.callbacks: dict[int, tuple[Callable[[Any], object], TaskFuture[Any]]] = {}

    def add_callback(self, task: TaskFuture[Any], callback: Callable[[Any], object]) -> bool:
        """Has that called once the task is noted; false if it is noted, or has such a callback already."""
        call = callback, task
        if self.callbacks.setdefault(task.number, call) is not call:
            return False
        # Who adds something and then learns that the task is noted takes it back: it may have come too late.
        return task.number in self.unnoted or self.callbacks.pop(task.number, None) is None

    def call(self, number: int) -> None:
        """Calls what is to be called once that task is noted, which it is."""
        call = self.callbacks.pop(number, None)
        if call is not None:
            call[0](call[1])


class Noting(msgspec.Struct, gc=False):
    """Notes that a task has ended, once it is called with its future.

    There is one for each task under way, so it is nothing that the collector of garbage looks at: it has neither the
    task nor the future, which has it.
    """

    records: Records
    tally: Tally
    name: str
    number: int
    parents: tuple[int, ...]
    submitted: float

    def __call__(self, future: Future) -> None:
        """Notes it; what waits for that is called even if it cannot be noted."""
        received = time()
        number, tally = self.number, self.tally
        try:
            try:
                answer: Answer = future.result()
                try:
                    _, _, host, process, begun, ready, returned, put, size, group = answer
                except (TypeError, ValueError):
                    kind = type(answer).__name__
                    raise BenchError(f"the executor gave {kind} instead of an answer") from None
            except BaseException as error:
                raised = Failure.of(error)
                ended = Ended(self.name, number, self.parents, self.submitted, received, raised)
            else:
                ended = Ended(
                    self.name,
                    number,
                    self.parents,
                    self.submitted,
                    received,
                    None,
                    host,
                    process,
                    begun,
                    ready,
                    returned,
                    put,
                    size,
                    group,
                )
            self.records.note(ended)
        except Exception as error:
            # Whoever calls back passes it to nobody.
            tally.lost.append(error)
        finally:
            tally.unnoted.discard(number)
            if tally.callbacks:
                tally.call(number)
