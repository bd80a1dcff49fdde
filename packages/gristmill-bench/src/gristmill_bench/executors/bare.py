"""Open executors without the suite's wrappers, for measurements in which a wrapper would cost as much as a task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from operator import methodcaller
from typing import Any

from gristmill_bench.errors import BenchError


class Bare(ABC):
    """An open executor with its own callables and its own futures."""

    #: Submits a call and returns the executor's future.
    submit: Callable[..., Any]
    #: Waits for a future and returns its result.
    result: Callable[[Any], Any]

    @abstractmethod
    def close(self) -> None:
        """Ends all processes and threads of the executor."""

    def collect(self, futures: Iterable[Any]) -> list[Any]:
        """Waits for all results in the executor's fastest way."""
        result = self.result
        return [result(future) for future in futures]

    def map(self, function: Callable[..., Any], items: range, chunk: int | None) -> list[Any]:
        """Maps in chunks of ``chunk`` items; ``None`` is the executor's default.

        Raises ``BenchError`` if the executor has no map.
        """
        raise BenchError("this executor has no map")


class BareExecutor(Bare):
    """An executor of ``concurrent.futures``."""

    def __init__(self, executor: Any) -> None:
        #: The executor itself.
        self.executor = executor
        self.submit = executor.submit
        self.result = methodcaller("result")

    def close(self) -> None:
        """Ends the executor. Cancels tasks that have not begun."""
        self.executor.shutdown(wait=True, cancel_futures=True)

    def collect(self, futures: Iterable[Any]) -> list[Any]:
        """Waits for all results."""
        return [future.result() for future in futures]

    def map(self, function: Callable[..., Any], items: range, chunk: int | None) -> list[Any]:
        """Maps in chunks."""
        if chunk is None:
            return list(self.executor.map(function, items))
        return list(self.executor.map(function, items, chunksize=chunk))
