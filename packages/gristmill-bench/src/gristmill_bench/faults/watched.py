"""The wrapper of a task in a run with failures: each execution writes a line, and each result has its task's number."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gristmill_bench.faults.kinds import FailureKind, Scene, fail

#: The folder, in that of a run, with a file for each task and in it a line for each time that the task began.
EXECUTIONS = "executions"


class Returned:
    """The return value of a task, with the task's number."""

    __slots__ = ("number", "value")

    def __init__(self, number: int, value: Any) -> None:
        self.number = number
        self.value = value

    def __reduce__(self) -> tuple[type[Returned], tuple[Any, ...]]:
        return Returned, (self.number, self.value)


@dataclass(frozen=True)
class Injection:
    """The failure that is injected into a task."""

    number: int
    #: The file in which its executions are noted.
    executions: str
    #: The kind of failure; ``None``: the task does not fail.
    kind: FailureKind | None
    #: Number of executions that fail; ``None``: all of them.
    attempts: int | None
    scene: Scene

    def begin(self) -> None:
        """Notes an execution, and fails if this execution is meant to."""
        attempt = _note(self.executions)
        if self.kind is not None and (self.attempts is None or attempt <= self.attempts):
            fail(self.kind, self.number, self.scene)


def _note(path: str) -> int:
    """Appends a line to a file that others may append to at the same time; returns the number of the line, from 1."""
    line = f"{os.getpid()} {time.time_ns()}\n".encode()
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(file, line)
    finally:
        os.close(file)
    return Path(path).read_bytes().splitlines(keepends=True).index(line) + 1


def executions(folder: Path) -> dict[int, int]:
    """Returns how often each task of a run began."""
    return {
        int(file.name): len(file.read_bytes().splitlines())
        for file in (folder / EXECUTIONS).glob("[0-9]*")
    }


class Watched:
    """A function that notes its executions, and fails if the injection says so."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.__name__ = getattr(function, "__name__", type(function).__name__)
        self.__qualname__ = getattr(function, "__qualname__", self.__name__)
        self.__module__ = getattr(function, "__module__", __name__)

    def __call__(
        self, injection: Injection, _parent: None, /, *args: Any, **kwargs: Any
    ) -> Returned:
        """Runs the function. ``_parent`` makes it wait for the failing parent, if there is one."""
        injection.begin()
        args = tuple(map(value_of, args))
        kwargs = {name: value_of(one) for name, one in kwargs.items()}
        return Returned(injection.number, self._function(*args, **kwargs))

    def _unchanging_parts(self) -> tuple[Any, ...]:
        """Returns the wrapped function."""
        return (self._function,)

    def __reduce__(self) -> tuple[type[Watched], tuple[Any, ...]]:
        return Watched, (self._function,)


def value_of(value: Any) -> Any:
    """Returns the return value of another task; returns any other value unchanged."""
    return value.value if type(value) is Returned else value


def failing_parent(injection: Injection) -> None:
    """Fails, so that the task that depends on it fails too."""
    injection.begin()
