"""A task as it is run where tasks are made to fail: each execution leaves a line, and each answer says whose it is."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gristmill.bench.faults.kinds import FailureKind, Scene, fail

#: Below the folder of a run: a file for each task, with a line for each time that it was begun.
EXECUTIONS = "executions"


class Returned:
    """What a task has returned, with its number."""

    __slots__ = ("number", "value")

    def __init__(self, number: int, value: Any) -> None:
        self.number = number
        self.value = value

    def __reduce__(self) -> tuple[type[Returned], tuple[Any, ...]]:
        return Returned, (self.number, self.value)


@dataclass(frozen=True)
class Injection:
    """What is to become of a task."""

    number: int
    #: Where its executions are noted.
    executions: str
    #: How it fails; ``None``: it does not.
    kind: FailureKind | None
    #: Executions that fail; ``None``: all of them.
    attempts: int | None
    scene: Scene

    def begin(self) -> None:
        """Notes an execution, and fails if this one is to."""
        attempt = _note(self.executions)
        if self.kind is not None and (self.attempts is None or attempt <= self.attempts):
            fail(self.kind, self.number, self.scene)


def _note(path: str) -> int:
    """Adds a line to a file, whoever else does; gives its number, from 1."""
    line = f"{os.getpid()} {time.time_ns()}\n".encode()
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(file, line)
    finally:
        os.close(file)
    return Path(path).read_bytes().splitlines(keepends=True).index(line) + 1


def executions(folder: Path) -> dict[int, int]:
    """How often each task of a run was begun."""
    return {
        int(file.name): len(file.read_bytes().splitlines())
        for file in (folder / EXECUTIONS).glob("[0-9]*")
    }


class Watched:
    """A function that notes its executions, and fails when it is to."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.__name__ = getattr(function, "__name__", type(function).__name__)
        self.__qualname__ = getattr(function, "__qualname__", self.__name__)
        self.__module__ = getattr(function, "__module__", __name__)

    def __call__(
        self, injection: Injection, _parent: None, /, *args: Any, **kwargs: Any
    ) -> Returned:
        """Runs it, once the task that makes it fail, if there is one, has ended."""
        injection.begin()
        args = tuple(map(value_of, args))
        kwargs = {name: value_of(one) for name, one in kwargs.items()}
        return Returned(injection.number, self._function(*args, **kwargs))

    def _unchanging_parts(self) -> tuple[Any, ...]:
        """All that it is made of."""
        return (self._function,)

    def __reduce__(self) -> tuple[type[Watched], tuple[Any, ...]]:
        return Watched, (self._function,)


def value_of(value: Any) -> Any:
    """What another task has returned; all else as it is."""
    return value.value if type(value) is Returned else value


def failing_parent(injection: Injection) -> None:
    """The task that another one depends on, for that to fail."""
    injection.begin()
