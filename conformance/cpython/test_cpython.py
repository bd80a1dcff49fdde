"""CPython's own tests of ``concurrent.futures`` for the running interpreter, on our executor.

The tests are classes without an executor. CPython derives one test class from each for every kind of pool; this module
derives one for each way to start workers. From Python 3.12 on the tests are a package, before that one module.
"""

from __future__ import annotations

import concurrent.futures.process
import importlib
import inspect
import unittest
from typing import Any

import adapter

import gristmill

_MODULE = "test.test_concurrent_futures"
_PARTS = ("as_completed", "deadlock", "init", "process_pool", "shutdown", "wait")
#: Classes to derive tests from, with the names of the derived tests. Those named ``ProcessPool...`` are for process
#: pools.
_MIXINS = {
    "WaitTests": "Wait",
    "AsCompletedTests": "AsCompleted",
    "ProcessPoolExecutorTest": "Executor",
    "ProcessPoolShutdownTest": "Shutdown",
    "InitializerMixin": "Initializer",
    "FailingInitializerMixin": "FailingInitializer",
    "ExecutorDeadlockTest": "Deadlock",
}


def _modules() -> list[Any]:
    """Returns the modules that contain the tests."""
    package = importlib.import_module(_MODULE)
    if not hasattr(package, "__path__"):
        return [package]
    return [importlib.import_module(f"{_MODULE}.test_{part}") for part in _PARTS]


def _find(name: str) -> Any:
    return next(getattr(one, name) for one in _modules() if hasattr(one, name))


def _make() -> dict[str, Any]:
    base = inspect.getmodule(_find("BaseTestCase")).BaseTestCase  # type: ignore[union-attr]
    made = {}
    for mixin, name in _MIXINS.items():
        for kind in (adapter.ForkMixin, adapter.SpawnMixin):
            title = f"{name}{kind.__name__.removesuffix('Mixin')}Test"
            bases = (kind, _find(mixin), base)
            if not issubclass(_find(mixin), adapter.executor_mixin()):
                bases = (kind, _find(mixin), adapter.executor_mixin(), base)
            made[title] = type(title, bases, {"__module__": __name__})
    return made


def setUpModule() -> None:
    """Makes the programs that the tests start use our executor too."""
    for module in _modules():
        if hasattr(module, "assert_python_ok"):
            module.assert_python_ok = adapter.assert_python_ok
        if hasattr(module, "ExecutorDeadlockTest"):
            # Only the one task fails; the pool stays usable.
            module.BrokenProcessPool = adapter.BROKEN
        if hasattr(module, "ProcessPoolShutdownTest"):
            module.futures = adapter.Futures()
    # The cause of an error that a task raised.
    concurrent.futures.process._RemoteTraceback = gristmill.RemoteTraceback


globals().update(_make())

if __name__ == "__main__":
    unittest.main()
