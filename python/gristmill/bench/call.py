"""What runs in a worker around a task's function: arguments are fetched, the result is put away, times are noted."""

from __future__ import annotations

import pickle
import socket
from collections.abc import Callable
from os import getpid
from time import time
from typing import Any

import msgspec

from gristmill.bench.interfaces import Filter, Transformer

#: The group of workers that this process is in (``gristmill.bench.executors.groups``).
group = ""


class Answer(msgspec.Struct, gc=False):
    """What a task has returned, where it ran, and when each step began and ended."""

    value: Any
    host: str
    process: int
    #: Seconds since the epoch: it began, had its arguments, had its result, had put that away.
    times: tuple[float, float, float, float]
    #: Bytes of the value, pickled; nobody has looked.
    size: int | None = None
    #: Of workers; none if there are no groups.
    group: str = ""


def value_of(value: Any) -> Any:
    """The object that an executor has brought: of another task, what that has returned."""
    return value.value if type(value) is Answer else value


class Passage:
    """How objects travel between a program and its tasks: those that a filter picks, by name."""

    __slots__ = ("_picks", "_transformer")

    def __init__(self, filter: Filter | None, transformer: Transformer) -> None:
        self._picks = filter
        self._transformer = transformer

    def leave(self, value: Any) -> Any:
        """What is sent for an object."""
        picks = self._picks
        return self._transformer.transform(value) if picks is None or picks(value) else value

    def arrive(self, value: Any) -> Any:
        """The object that was sent, or returned."""
        if type(value) is Answer:
            value = value.value
        return self._transformer.resolve(value) if self._transformer.is_name(value) else value

    def __reduce__(self) -> tuple[type[Passage], tuple[Any, ...]]:
        return Passage, (self._picks, self._transformer)


class Call:
    """A function as it is sent where something is noted or transformed."""

    def __init__(
        self, function: Callable[..., Any], passage: Passage | None, sizes: bool = False
    ) -> None:
        self._function = function
        self._passage = passage
        #: Whether it is noted how large results are.
        self._sizes = sizes
        self._arrived = value_of if passage is None else passage.arrive
        self.__name__ = getattr(function, "__name__", type(function).__name__)
        self.__qualname__ = getattr(function, "__qualname__", self.__name__)
        self.__module__ = getattr(function, "__module__", __name__)

    def __call__(self, *args: Any, **kwargs: Any) -> Answer:
        """Runs it."""
        begun = time()
        arrived = self._arrived
        for value in args:
            if arrived is not value_of or type(value) is Answer:
                args = tuple(map(arrived, args))
                break
        if kwargs:
            kwargs = {name: arrived(value) for name, value in kwargs.items()}
        ready = time()
        value = self._function(*args, **kwargs)
        returned = time()
        size = _pickled_size(value) if self._sizes else None
        if self._passage is not None:
            value = self._passage.leave(value)
        return Answer(value, _host, getpid(), (begun, ready, returned, time()), size, group)

    def __reduce__(self) -> tuple[type[Call], tuple[Any, ...]]:
        return Call, (self._function, self._passage, self._sizes)


def _pickled_size(value: Any) -> int | None:
    """Bytes; none for what cannot be pickled without help, which an executor may send all the same."""
    try:
        return len(pickle.dumps(value, protocol=5))
    except Exception:
        return None


_host = socket.gethostname()
