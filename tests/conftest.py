"""Executors, gates that hold tasks, and programs of their own, for all tests."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from gristmill import Executor, on

from stage import Gate, Script

# What is drawn at random: ./dev test looks at a few examples, always the same; ./dev thorough at many.
settings.register_profile("quick", max_examples=100, derandomize=True)
settings.register_profile("deep", max_examples=1000)
settings.load_profile("quick")


def pytest_collection_finish() -> None:
    """Leaves aside what all tests have, from now on: collections of garbage look through what a test has made."""
    gc.collect()
    gc.freeze()


def nodes(max_workers: int | None) -> dict[str, object]:
    """Options that put an executor's workers behind a node agent, where all tests are to be run so."""
    if "GRISTMILL_TEST_NODES" not in os.environ:
        return {}
    return {"nodes": on.local(1, max_workers or 2)}


@pytest.fixture
def interrupts() -> Iterator[None]:
    """Interrupts reach the test and what it starts, although a shell may have had the tests ignore them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def make_executor() -> Iterator[Callable[..., Executor]]:
    """Makes executors that are shut down when the test ends."""
    made: list[Executor] = []

    def make(max_workers: int | None = 2, *arguments: object, **options: object) -> Executor:
        options = {**nodes(max_workers), **options}
        made.append(Executor(max_workers, *arguments, **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for executor in made:
        executor.shutdown(cancel_futures=True)


@pytest.fixture
def executor(make_executor: Callable[..., Executor]) -> Executor:
    """An executor of two workers, for one test."""
    return make_executor()


@pytest.fixture(scope="module")
def shared() -> Iterator[Executor]:
    """An executor of two workers for the tests of a module that do it no harm."""
    with Executor(2, **nodes(2)) as executor:  # type: ignore[arg-type]
        yield executor


@pytest.fixture
def gate(make_executor: Callable[..., Executor], tmp_path: Path) -> Iterator[Gate]:
    """A gate that opens before the test's executors are shut down."""
    made = Gate(tmp_path)
    yield made
    made.close()


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """Runs programs of their own."""
    return Script(tmp_path)
