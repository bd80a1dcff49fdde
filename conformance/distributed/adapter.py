"""Pytest plugin that makes the tests of Dask's ``Client.get_executor()`` use our executor.

The client in these tests makes executors and reports their unfinished tasks.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from typing import Any

import distributed.event
import pytest

import gristmill

from file_event import Event

_WORKERS = 2
#: Options of ``get_executor``. With ``pure``, equal calls of one function are one task.
_OPTIONS = ("pure", "retries")


class Executor:
    """An executor with Dask's options. A call may pass an option among its arguments."""

    def __init__(self, client: Client, retries: int = 0, pure: bool = True) -> None:
        self._executor = gristmill.Executor(_WORKERS)
        self._options = self._executor.options(retries=retries)
        self._client = client

    def submit(self, function: Any, *arguments: Any, **named: Any) -> Any:
        """Runs a call. Returns its future."""
        named.pop("pure", None)
        return self._client.noted(self._options.submit(function, *arguments, **named))

    def map(
        self, function: Any, *iterables: Iterable[Any], timeout: float | None = None
    ) -> Iterator[Any]:
        """Runs a call for each item. Returns an iterator over the results."""
        return self._options.map(function, *iterables, timeout=timeout)

    def shutdown(self, wait: bool = True) -> None:
        """Ends the executor. Waits for its tasks, or cancels them."""
        self._executor.shutdown(wait, cancel_futures=not wait)

    def __enter__(self) -> Executor:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        # After a failed test the tasks may never end, so this does not wait for them.
        self.shutdown(wait=kind is None)


class Client:
    """Subset of Dask's client that the tests use."""

    def __init__(self) -> None:
        self._futures: weakref.WeakSet[Future[Any]] = weakref.WeakSet()

    def get_executor(self, **options: Any) -> Executor:
        """Makes an executor."""
        return Executor(self, **options)

    def noted(self, future: Future[Any]) -> Future[Any]:
        """Adds a task to those that ``processing`` reports until they are done."""
        self._futures.add(future)
        return future

    def processing(self) -> dict[str, list[Future[Any]]]:
        """Returns the unfinished tasks by worker."""
        return {"all": [future for future in self._futures if not future.done()]}

    def nthreads(self) -> dict[str, int]:
        """Returns the number of tasks that each worker runs at once."""
        return dict.fromkeys(("a", "b"), 1)


distributed.event.Event = Event


@pytest.fixture
def client() -> Client:
    """Replaces a client of a cluster."""
    return Client()


@pytest.fixture
def s() -> None:
    """Replaces a scheduler."""


@pytest.fixture(name="a")
def worker_a() -> dict[str, str]:
    """Replaces a worker."""
    return {"address": "a"}


@pytest.fixture(name="b")
def worker_b() -> dict[str, str]:
    """Replaces another worker."""
    return {"address": "b"}
