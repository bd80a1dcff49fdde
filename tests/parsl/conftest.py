"""Kernels for all tests of the Parsl surface: on threads of this process, and on the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import gristmill.parsl as parsl
from gristmill.parsl import DataFlowKernel, GristmillExecutor

from kernels import configuration
from stage import Gate


@pytest.fixture(scope="module", params=["threads", "engine"])
def kernel(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DataFlowKernel]:
    """Yields a loaded kernel. The tests of a module share it; they must not damage it."""
    folder = tmp_path_factory.mktemp(request.param)
    with parsl.load(configuration(request.param, folder)) as kernel:
        yield kernel


@pytest.fixture
def engine_only(kernel: DataFlowKernel) -> DataFlowKernel:
    """Returns the loaded kernel; skips a test that threads cannot run."""
    if not isinstance(kernel.executors["here"], GristmillExecutor):
        pytest.skip("threads of this process cannot do it")
    return kernel


MakeKernel = Callable[..., DataFlowKernel]


@pytest.fixture
def make_kernel(tmp_path: Path) -> Iterator[MakeKernel]:
    """Makes kernels that are not loaded and end with the test: ``make_kernel("threads", retries=1)``."""
    made: list[DataFlowKernel] = []

    def make(kind: str, **options: Any) -> DataFlowKernel:
        made.append(DataFlowKernel(configuration(kind, tmp_path, **options)))
        return made[-1]

    yield make
    for kernel in made:
        if not kernel.cleanup_called:
            kernel.cleanup()


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    """Yields a gate that opens when the test ends."""
    made = Gate(tmp_path)
    yield made
    made.close()


@pytest.fixture
def hold(make_kernel: MakeKernel, gate: Gate) -> Gate:
    """Returns a gate that opens before the test's own kernels end."""
    return gate
