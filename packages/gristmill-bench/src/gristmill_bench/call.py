"""The wrapper of a task's function in a worker: it resolves arguments, transforms the result and takes the times."""

from __future__ import annotations

import pickle
import socket
from collections.abc import Callable
from os import getpid, register_at_fork
from time import time
from typing import Any

from gristmill_bench.interfaces import Filter, Transformer

#: The group of workers that this process is in (``gristmill_bench.executors.groups``).
group = ""


#: The first item of an answer.
_MARK = "gristmill_bench.answer"
#: The answer of a call: a plain tuple, which every engine sends the shortest way. Its items: the mark; the return value
#: of the task; host and process; the times when the task began, had its arguments, had its result and had put the
#: result away, seconds since the epoch; bytes of the pickled return value, ``None`` if it was not measured; the group
#: of workers, "" if there are no groups.
Answer = tuple[str, Any, str, int, float, float, float, float, int | None, str]
_ANSWER_LENGTH = 10


def value_of(value: Any) -> Any:
    """Returns the object that an executor has delivered; for an answer, the return value of the task in it."""
    # The value may be of any type, so it is not compared as a whole: arrays compare to arrays.
    if type(value) is tuple and len(value) == _ANSWER_LENGTH and type(value[0]) is str:
        return value[1] if value[0] == _MARK else value
    return value


class Passage:
    """The transfer of objects between a program and its tasks: the objects that a filter picks are sent as names."""

    __slots__ = ("_picks", "_transformer")

    def __init__(self, filter: Filter | None, transformer: Transformer) -> None:
        self._picks = filter
        self._transformer = transformer

    def leave(self, value: Any) -> Any:
        """Returns what is sent for an object: its name if the filter picks it, otherwise the object itself."""
        picks = self._picks
        return self._transformer.transform(value) if picks is None or picks(value) else value

    def arrive(self, value: Any) -> Any:
        """Returns the object for a value that was sent or returned."""
        value = value_of(value)
        return self._transformer.resolve(value) if self._transformer.is_name(value) else value

    def _unchanging_parts(self) -> tuple[()]:
        """Returns nothing: filter and transformer belong to a run and stay as they are when its first task is sent."""
        return ()

    def __reduce__(self) -> tuple[type[Passage], tuple[Any, ...]]:
        return Passage, (self._picks, self._transformer)


class Call:
    """A function in the form in which it is sent if the run records or transforms anything."""

    def __init__(
        self, function: Callable[..., Any], passage: Passage | None, sizes: bool = False
    ) -> None:
        self._function = function
        self._passage = passage
        #: True if the size of each result is measured.
        self._sizes = sizes
        self._arrived = value_of if passage is None else passage.arrive
        self.__name__ = getattr(function, "__name__", type(function).__name__)
        self.__qualname__ = getattr(function, "__qualname__", self.__name__)
        self.__module__ = getattr(function, "__module__", __name__)

    def __call__(self, *args: Any, **kwargs: Any) -> Answer:
        """Runs the function; returns its result with times and process."""
        begun = ready = time()
        arrived = self._arrived
        for value in args:
            if arrived is not value_of or type(value) is tuple:
                args = tuple(map(arrived, args))
                ready = time()
                break
        if kwargs:
            kwargs = {name: arrived(value) for name, value in kwargs.items()}
            ready = time()
        value = self._function(*args, **kwargs)
        put = returned = time()
        size = None
        if self._sizes:
            size = _pickled_size(value)
            put = time()
        if self._passage is not None:
            value = self._passage.leave(value)
            put = time()
        return _MARK, value, _host, _process, begun, ready, returned, put, size, group

    def _unchanging_parts(self) -> tuple[Any, ...]:
        """Returns the function and the passage."""
        return self._function, self._passage

    def __reduce__(self) -> tuple[type[Call], tuple[Any, ...]]:
        return Call, (self._function, self._passage, self._sizes)


def _pickled_size(value: Any) -> int | None:
    """Returns the bytes of the pickled value, or ``None`` if plain pickle refuses it; an executor may still send it."""
    try:
        return len(pickle.dumps(value, protocol=5))
    except Exception:
        return None


def _remember_process() -> None:
    global _process
    _process = getpid()


_host = socket.gethostname()
#: The id of this process. Asking the kernel takes longer than a task that does nothing.
_process = getpid()
register_at_fork(after_in_child=_remember_process)
