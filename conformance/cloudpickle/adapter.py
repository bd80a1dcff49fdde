"""Pytest plugin that sends the objects of cloudpickle's tests through a worker instead of only pickling them.

The tests check the object that returns. Tests that only read or only write pickles do not involve an executor and are
dropped.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from typing import Any

import pytest
from tests import testutils

import gristmill

#: Functions of the test modules that this plugin replaces.
_SENDING = ("pickle_depickle", "subprocess_pickle_echo", "subprocess_worker")
_executor: gristmill.Executor | None = None


def _workers() -> gristmill.Executor:
    global _executor
    if _executor is None:
        _executor = gristmill.Executor(1)
    return _executor


def echo(value: Any) -> Any:
    """Returns the object that the worker received."""
    return value


def there_and_back(value: Any, protocol: int | None = None, **_options: Any) -> Any:
    """Replaces pickling and unpickling: sends the value to a worker and back."""
    return _workers().submit(echo, value).result()


class Worker:
    """A replacement for a pool of one process whose calls block until they return."""

    def __init__(self) -> None:
        self._executor = gristmill.Executor(1)

    def run(self, function: Any, *arguments: Any, **named: Any) -> Any:
        """Runs a call in the worker. Returns its result."""
        return self._executor.submit(function, *arguments, **named).result()

    def memsize(self) -> int:
        """Returns the resident memory of the worker in bytes."""
        return int(self._executor.submit(_memory).result())

    def close(self) -> None:
        """Ends the worker."""
        self._executor.shutdown()


def _memory() -> int:
    import psutil

    return int(psutil.Process().memory_info().rss)


@contextlib.contextmanager
def worker(protocol: int | None = None) -> Iterator[Worker]:
    """Provides a worker for the duration of a test."""
    made = Worker()
    try:
        yield made
    finally:
        made.close()


testutils.subprocess_pickle_echo = there_and_back
testutils.subprocess_worker = worker


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Drops the tests that send no object."""
    items[:] = [item for item in items if _sends(item)]
    for item in items:
        item.module.pickle_depickle = there_and_back  # type: ignore[attr-defined]


def _sends(item: pytest.Item) -> bool:
    source = inspect.getsource(item.function)  # type: ignore[attr-defined]
    return any(name in source for name in _SENDING)


def pytest_sessionfinish() -> None:
    """Ends the worker that most tests share."""
    if _executor is not None:
        _executor.shutdown()
