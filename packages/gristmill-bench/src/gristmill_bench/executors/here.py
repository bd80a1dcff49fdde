"""Executors without processes of their own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, Literal

from gristmill_bench.dependencies import AfterParents
from gristmill_bench.executors.base import ExecutorPlugin
from gristmill_bench.interfaces import Backend


class Inline(ExecutorPlugin):
    """No executor at all: each task ends during its submission. The run measures the cost of the suite itself."""

    without_groups: ClassVar[str] = "it has none"

    workers: Literal[1] = 1

    def open(self) -> Backend:
        """Returns the backend; nothing has to be started."""
        return _Now()


class _Ended:
    """The future of a task that has ended."""

    __slots__ = ("_error", "_value")

    def __init__(self, value: Any, error: BaseException | None) -> None:
        self._value = value
        self._error = error

    def result(self, timeout: float | None = None) -> Any:
        if self._error is not None:
            raise self._error
        return self._value

    def exception(self, timeout: float | None = None) -> BaseException | None:
        return self._error

    def done(self) -> bool:
        return True

    def cancel(self) -> bool:
        return False

    def add_done_callback(self, callback: Callable[[Any], object], /) -> None:
        callback(self)


def _value(argument: Any) -> Any:
    return argument.result() if type(argument) is _Ended else argument


class _Now:
    """Backend that runs tasks during their submission."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> _Ended:
        try:
            for one in args:
                if type(one) is _Ended:
                    args = tuple(map(_value, args))
                    break
            for name, one in kwargs.items():
                kwargs[name] = _value(one)
            return _Ended(function(*args, **kwargs), None)
        except BaseException as error:
            return _Ended(None, error)

    def shutdown(self) -> None:
        pass


class Threads(ExecutorPlugin):
    """``concurrent.futures.ThreadPoolExecutor``: threads of the program, which share its interpreter lock."""

    without_groups: ClassVar[str] = "they are threads of one process"

    def open(self) -> Backend:
        """Makes the pool, whose threads start with its first tasks."""
        return AfterParents(ThreadPoolExecutor(self.workers))
