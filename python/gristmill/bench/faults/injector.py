"""An engine for an application of which some tasks fail: it makes them, and notes what becomes of each."""

from __future__ import annotations

import random
from asyncio import CancelledError
from collections.abc import Callable
from concurrent.futures import Future as Plain
from dataclasses import dataclass
from math import floor
from pathlib import Path
from typing import Any

from gristmill.bench.engine import Engine, FutureAround, TaskFuture
from gristmill.bench.faults.kinds import FAILURE_KINDS, FailureKind, Scene
from gristmill.bench.faults.notes import Notes, Planned
from gristmill.bench.faults.watched import (
    EXECUTIONS,
    Injection,
    Returned,
    Watched,
    failing_parent,
    value_of,
)
from gristmill.bench.interfaces import Future

#: What a future raises at worst: some engines cancel as ``asyncio`` does.
FAILURES = (Exception, CancelledError)


@dataclass(frozen=True)
class Plan:
    """Which tasks fail, and how: the same ones for the same seed, whatever the engine does.

    They are spread evenly, so that there is one even where tasks are few.
    """

    #: One kind, or all of them.
    kinds: tuple[FailureKind, ...]
    rate: float
    seed: int
    attempts: int | None

    def draw(self, number: int) -> FailureKind | None:
        """How a task fails, if it does."""
        # Those that do not fail are drawn where they are the fewer.
        is_few = self.rate <= 0.5
        if self._is_drawn(number, self.rate if is_few else 1 - self.rate) != is_few:
            return None
        return random.Random(f"kind {self.seed} {number}").choice(self.kinds)

    def _is_drawn(self, number: int, share: float) -> bool:
        """Whether a task is the one that is drawn of those that make up a share: one of ten for a tenth."""
        parts = {floor(number * share), floor((number + 1) * share)} if share else set()
        return any(
            floor((part + random.Random(f"{self.seed} {part}").random()) / share) == number
            for part in parts
        )


def kinds_of(name: FailureKind | str) -> tuple[FailureKind, ...]:
    """What a name stands for: any of them, where they are drawn."""
    return tuple(kind for kind in FAILURE_KINDS if name in (kind, "random"))


class Injector:
    """Submits tasks of an application to its engine. It is to that what an executor is to an engine."""

    def __init__(self, engine: Engine, plan: Plan, scene: Scene, folder: Path) -> None:
        self._engine = engine
        self._plan = plan
        self._scene = scene
        self._executions = folder / EXECUTIONS
        self._executions.mkdir()
        self.notes = Notes(folder)
        self._tasks: list[InjectedFuture] = []
        #: By function, so that executors that remember functions do.
        self._watched: dict[Callable[..., Any], Watched] = {}

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> InjectedFuture:
        """Submits a call. What the engine refuses is a task that has failed: the application goes on."""
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
        """Nothing is its own: its engine's executor ends with the run."""

    def wait(self) -> None:
        """Waits until each task has ended and that is noted, as long as it takes."""
        for task in self._tasks:
            self._note(task)

    @property
    def injected(self) -> set[int]:
        """The numbers of the tasks that were to fail."""
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
        """For a task that fails since another one does, that one."""
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
    """What a task of the application will return, as that sees it: around its engine's future, or one that has ended if
    the engine refused it.
    """

    def __init__(self, number: int, kind: FailureKind | None) -> None:
        self.number = number
        #: How it is to fail, if it is.
        self.kind = kind

    def result(self, timeout: float | None = None) -> Any:
        """Waits for what it returns; raises what it raises."""
        return value_of(self.future.result(timeout))


def _sent(argument: Any) -> Any:
    """What the engine is given for an argument; raises what a task that was refused has."""
    if type(argument) is not InjectedFuture:
        return argument
    if type(argument.future) is not TaskFuture:
        argument.future.result()
    return argument.future


def _failed(error: BaseException) -> Future:
    future: Plain[Any] = Plain()
    future.set_exception(error)
    return future
