"""Setups that tasks need before they run: shared, or made anew for each task.

The idea is that of function contexts (Phung et al., *Accelerating Function-Centric Applications by Discovering,
Distributing, and Retaining Reusable Context in Workflow Systems*, section 3). An executor that supports contexts keeps
the setup itself. On all others each process keeps it in a global, as their users do.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from os import urandom
from threading import RLock
from typing import Any, Literal

#: "memory": the setup is kept from one task to the next; "none": it is not.
Reuse = Literal["memory", "none"]
#: A callable that gives a task its setup, in the process of the task.
Source = Callable[[], Any]

#: Setups that a process keeps: applications have one or two; the least recently used one is dropped first.
_KEPT_MAX = 8
_kept: OrderedDict[str, Any] = OrderedDict()
_lock = RLock()


class Anew:
    """A source that runs the setup for each task."""

    __slots__ = ("_arguments", "_setup")

    def __init__(self, setup: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self._setup = setup
        self._arguments = arguments

    def __call__(self) -> Any:
        """Calls the setup."""
        return self._setup(*self._arguments)

    def _unchanging_parts(self) -> tuple[Any, ...]:
        """Returns the setup and its arguments."""
        return self._setup, self._arguments

    def __reduce__(self) -> tuple[type[Anew], tuple[Any, ...]]:
        return Anew, (self._setup, self._arguments)


class Kept:
    """A source that runs the setup with the first task of a process; other threads of the process wait for it."""

    __slots__ = ("_arguments", "_key", "_setup")

    def __init__(
        self, setup: Callable[..., Any], arguments: tuple[Any, ...], key: str | None = None
    ) -> None:
        self._setup = setup
        self._arguments = arguments
        # A key of its own: an object that is sent by value is another object in each task.
        self._key = urandom(16).hex() if key is None else key

    def __call__(self) -> Any:
        """Returns the setup of this process; runs it if needed."""
        with _lock:
            if self._key in _kept:
                _kept.move_to_end(self._key)
            else:
                _kept[self._key] = self._setup(*self._arguments)
                if len(_kept) > _KEPT_MAX:
                    _kept.popitem(last=False)
            return _kept[self._key]

    def _unchanging_parts(self) -> tuple[Any, ...]:
        """Returns the setup and its arguments."""
        return self._setup, self._arguments

    def __reduce__(self) -> tuple[type[Kept], tuple[Any, ...]]:
        return Kept, (self._setup, self._arguments, self._key)


class Prepared:
    """A function whose first argument is the setup."""

    def __init__(self, function: Callable[..., Any], source: Source) -> None:
        self._function = function
        self._source = source
        self.__name__ = getattr(function, "__name__", type(function).__name__)
        self.__qualname__ = getattr(function, "__qualname__", self.__name__)
        self.__module__ = getattr(function, "__module__", __name__)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function with the setup."""
        return self._function(self._source(), *args, **kwargs)

    def _unchanging_parts(self) -> tuple[Any, ...]:
        """Returns the function and the source."""
        return self._function, self._source

    def __reduce__(self) -> tuple[type[Prepared], tuple[Any, ...]]:
        return Prepared, (self._function, self._source)
