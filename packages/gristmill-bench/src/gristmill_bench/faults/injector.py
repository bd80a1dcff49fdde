"""An engine for an application with injected failures: it makes tasks fail and records the outcome of each task."""

from __future__ import annotations

import random
from asyncio import CancelledError
from collections.abc import Callable
from concurrent.futures import Future as Plain
from dataclasses import dataclass
from math import floor
from pathlib import Path
from typing import Any

from gristmill_bench.engine import Engine, FutureAround, TaskFuture
from gristmill_bench.faults.kinds import FAILURE_KINDS, FailureKind, Scene
from gristmill_bench.faults.notes import Notes, Planned
from gristmill_bench.faults.watched import (
    EXECUTIONS,
    Injection,
    Returned,
    Watched,
    failing_parent,
    value_of,
)
from gristmill_bench.interfaces import Future

#: Exceptions that a future may raise: some engines cancel with the exception of ``asyncio``.
FAILURES = (Exception, CancelledError)


@dataclass(frozen=True)
class Plan:
    """The choice of tasks that fail, and of their failures: the same for the same seed, whatever the engine does.

    The failing tasks are spread evenly, so that there is one even if the application has few tasks.
    """

    #: One kind of failure, or all of them.
    kinds: tuple[FailureKind, ...]
    rate: float
    seed: int
    attempts: int | None

    def draw(self, number: int) -> FailureKind | None:
        """Returns the failure of a task, or ``None`` if it does not fail."""
        # Above a rate of one half, the tasks that do not fail are drawn instead.
        is_few = self.rate <= 0.5
        if self._is_drawn(number, self.rate if is_few else 1 - self.rate) != is_few:
            return None
        return random.Random(f"kind {self.seed} {number}").choice(self.kinds)

    def _is_drawn(self, number: int, share: float) -> bool:
        """Returns whether a task is drawn: a share of a tenth draws one of every ten consecutive tasks."""
        parts = {floor(number * share), floor((number + 1) * share)} if share else set()
        return any(
            floor((part + random.Random(f"{self.seed} {part}").random()) / share) == number
            for part in parts
        )


def kinds_of(name: FailureKind | str) -> tuple[FailureKind, ...]:
    """Returns the kinds of failure that a name stands for: all of them for ``random``."""
    return tuple(kind for kind in FAILURE_KINDS if name in (kind, "random"))


class Injector:
    """A layer between an application and its engine that injects failures into tasks."""

    def __init__(self, engine: Engine, plan: Plan, scene: Scene, folder: Path) -> None:
        self._engine = engine
        self._plan = plan
        self._scene = scene
        self._executions = folder / EXECUTIONS
        self._executions.mkdir()
        self.notes = Notes(folder)
        self._tasks: list[InjectedFuture] = []
        #: One wrapper for each function, so that executors that remember functions recognise it.
        self._watched: dict[Callable[..., Any], Watched] = {}

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> InjectedFuture:
        """Submits a call. If the engine refuses it, the task counts as failed and the application goes on."""
        task = InjectedFuture(len(self._tasks), self._plan.draw(len(self._tasks)))
        self._tasks.append(task)
        given = (*args, *kwargs.values())
        parents = tuple([one.number for one in given if type(one) is InjectedFuture])
        name = getattr(function, "__name__", type(function).__name__)
        self.notes.planned(Planned(task.number, name, task.kind, parents))
        try:
            args = tuple(map(_sent, args))
            kwargs = {name: _sent(one) for name, one in kwargs.items()}
            parent = self._parent(task)
            injection = self._injection(task, str(task.number))
            task.future = self._engine.submit(
                self._call(function), injection, parent, *args, **kwargs
            )
        except FAILURES as error:
            task.future = _failed(error)
        task.future.add_done_callback(lambda _: self._note(task))
        return task

    def shutdown(self) -> None:
        """Does nothing: the executor of its engine ends with the run."""

    def wait(self) -> None:
        """Waits until each task has ended and is recorded, without a time limit."""
        for task in self._tasks:
            self._note(task)

    @property
    def injected(self) -> set[int]:
        """The numbers of the tasks that were meant to fail."""
        return {task.number for task in self._tasks if task.kind is not None}

    def _note(self, task: InjectedFuture) -> None:
        try:
            returned: Returned = task.future.result()
        except FAILURES as error:
            self.notes.ended(task.number, "error", error)
        else:
            is_its = type(returned) is Returned and returned.number == task.number
            self.notes.ended(task.number, "result" if is_its else "wrong", None)

    def _parent(self, task: InjectedFuture) -> TaskFuture[None] | None:
        """Submits the failing parent of a task with the failure "dependency"; returns ``None`` for other failures."""
        if task.kind != "dependency":
            return None
        return self._engine.submit(
            failing_parent, self._injection(task, f"parent-of-{task.number}")
        )

    def _injection(self, task: InjectedFuture, file: str) -> Injection:
        is_child = task.kind == "dependency" and file == str(task.number)
        return Injection(
            task.number,
            str(self._executions / file),
            None if is_child else task.kind,
            self._plan.attempts,
            self._scene,
        )

    def _call(self, function: Callable[..., Any]) -> Watched:
        call = self._watched.get(function)
        if call is None:
            call = self._watched[function] = Watched(function)
        return call


class InjectedFuture(FutureAround):
    """The future of a task as the application sees it.

    It wraps the engine's future, or a failed future if the engine refused the task.
    """

    def __init__(self, number: int, kind: FailureKind | None) -> None:
        self.number = number
        #: The failure of the task, or ``None``.
        self.kind = kind

    def result(self, timeout: float | None = None) -> Any:
        """Waits for the task; returns its result or raises its exception."""
        return value_of(self.future.result(timeout))


def _sent(argument: Any) -> Any:
    """Returns the argument that the engine gets; raises the exception of a task that the engine refused."""
    if type(argument) is not InjectedFuture:
        return argument
    if type(argument.future) is not TaskFuture:
        argument.future.result()
    return argument.future


def _failed(error: BaseException) -> Future:
    future: Plain[Any] = Plain()
    future.set_exception(error)
    return future
