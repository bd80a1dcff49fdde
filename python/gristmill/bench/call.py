"""What runs in a worker around a task's function: arguments are fetched, the result is put away, times are noted."""

from __future__ import annotations

import pickle
import socket
from collections.abc import Callable
from os import getpid, register_at_fork
from time import time
from typing import Any

from gristmill.bench.interfaces import Filter, Transformer

#: The group of workers that this process is in (``gristmill.bench.executors.groups``).
group = ""


#: What an answer begins with.
_MARK = "gristmill.bench.answer"
#: What a call gives: a plain tuple, which every engine sends its shortest way. It has the mark; what the task has
#: returned; host and process; when it began, had its arguments, had its result, had put that away, seconds since the
#: epoch; bytes of what it has returned, pickled, if somebody has looked; its group of workers, "" if there are none.
Answer = tuple[str, Any, str, int, float, float, float, float, int | None, str]
_ANSWER_LENGTH = 10


def value_of(value: Any) -> Any:
    """The object that an executor has brought: of another task, what that has returned."""
    # Not compared with what may be of any type: arrays compare to arrays.
    if type(value) is tuple and len(value) == _ANSWER_LENGTH and type(value[0]) is str:
        return value[1] if value[0] == _MARK else value
    return value


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
        value = value_of(value)
        return self._transformer.resolve(value) if self._transformer.is_name(value) else value

    def _unchanging_parts(self) -> tuple[()]:
        """Nothing: filter and transformer are those of a run, and what they are when its first task is sent."""
        return ()

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
        """All that it is made of."""
        return self._function, self._passage

    def __reduce__(self) -> tuple[type[Call], tuple[Any, ...]]:
        return Call, (self._function, self._passage, self._sizes)


def _pickled_size(value: Any) -> int | None:
    """Bytes; none for what cannot be pickled without help, which an executor may send all the same."""
    try:
        return len(pickle.dumps(value, protocol=5))
    except Exception:
        return None


def _remember_process() -> None:
    global _process
    _process = getpid()


_host = socket.gethostname()
#: The number of this process: the kernel takes longer to say it than a task of no work takes.
_process = getpid()
register_at_fork(after_in_child=_remember_process)
