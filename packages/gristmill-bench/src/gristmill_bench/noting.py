"""The recording of ended tasks, by the first callback of a task's future, which then calls the other callbacks."""

from __future__ import annotations

from collections.abc import Callable
from time import time
from typing import TYPE_CHECKING, Any

import msgspec

from gristmill_bench.call import Answer
from gristmill_bench.ended import Ended, Failure
from gristmill_bench.errors import BenchError
from gristmill_bench.interfaces import Future, Records

if TYPE_CHECKING:
    from gristmill_bench.engine import TaskFuture


class Tally:
    """The counts that an engine shares with the engines made by its ``within``."""

    __slots__ = ("callbacks", "lost", "submitted", "unnoted")

    def __init__(self) -> None:
        self.submitted = 0
        #: Numbers of tasks that are not recorded yet.
        self.unnoted: set[int] = set()
        #: The reason for each task that could not be recorded.
        self.lost: list[Exception] = []
        #: Callbacks by task number, called when the task is recorded. Executors get one callback for each task, because
        #: a second one costs some of them more than all else. Each use is one operation of the dict and needs no lock.
        self.callbacks: dict[int, tuple[Callable[[Any], object], TaskFuture[Any]]] = {}

    def add_callback(self, task: TaskFuture[Any], callback: Callable[[Any], object]) -> bool:
        """Registers a callback for a task's recording; returns false if it is recorded or has a callback already."""
        call = callback, task
        if self.callbacks.setdefault(task.number, call) is not call:
            return False
        # The task may have been recorded meanwhile. Then it is removed here, unless ``call`` took it.
        return task.number in self.unnoted or self.callbacks.pop(task.number, None) is None

    def call(self, number: int) -> None:
        """Calls the callback of a task that is recorded."""
        call = self.callbacks.pop(number, None)
        if call is not None:
            call[0](call[1])


class Noting(msgspec.Struct, gc=False):
    """A callback that records the end of a task when it is called with the task's future.

    There is one for each task under way, so the garbage collector does not track it: it refers neither to the task nor
    to the future, which refers to it.
    """

    records: Records
    tally: Tally
    name: str
    number: int
    parents: tuple[int, ...]
    submitted: float

    def __call__(self, future: Future) -> None:
        """Records the task; calls the registered callback even if the recording fails."""
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
            # The code that calls callbacks discards their exceptions.
            tally.lost.append(error)
        finally:
            tally.unnoted.discard(number)
            if tally.callbacks:
                tally.call(number)
