"""Time limits of apps: a task beyond its limit ends with ``AppTimeout``, and so do all processes that it started."""

from __future__ import annotations

import os
import time
from concurrent.futures import wait
from pathlib import Path
from typing import Any

import pytest

from gristmill.parsl import DataFlowKernel, bash_app, python_app
from gristmill.parsl.app.errors import AppTimeout

import calls
from stage import Gate

#: A short limit that still lets a task begin, seconds.
SHORT = 0.3


@python_app
def spin(walltime: float | None = None) -> None:
    while True:
        pass


@python_app
def sleep(seconds: float, walltime: float | None = None) -> str:
    time.sleep(seconds)
    return "slept"


@python_app
def multiply(size: int, walltime: float | None = None) -> None:
    import numpy

    values = numpy.ones((size, size))
    while True:
        values @ values


@python_app
def enter(path: str, walltime: float = SHORT) -> None:
    calls.enter(path)


@bash_app
def background(path: str, walltime: float | None = None, stderr: Any = None) -> str:
    """Returns a command that writes the process id of its child; neither of the two ends by itself."""
    return f"(trap '' TERM; sleep 1000) & echo $! > {path}; cat {path}.never"


def test_a_task_that_is_fast_enough_gives_its_value(kernel: DataFlowKernel) -> None:
    assert sleep(0, walltime=1000).result() == "slept"
    assert sleep(0, walltime=None).result() == "slept"


def test_a_task_that_computes_too_long_ends(kernel: DataFlowKernel) -> None:
    with pytest.raises(AppTimeout):
        spin(walltime=SHORT).result()


def test_the_limit_may_be_the_apps_default(engine_only: DataFlowKernel, gate: Gate) -> None:
    with pytest.raises(AppTimeout):
        enter(gate.path).result()


def test_after_a_limit_the_same_workers_go_on(kernel: DataFlowKernel) -> None:
    wait([spin(walltime=SHORT), spin(walltime=SHORT)])
    assert [sleep(0).result() for _ in range(4)] == ["slept"] * 4


@pytest.mark.parametrize(
    "call", [lambda: sleep(1000, walltime=SHORT), lambda: multiply(800, walltime=SHORT)]
)
def test_the_engine_ends_a_task_that_is_in_compiled_code(
    engine_only: DataFlowKernel, call: Any
) -> None:
    with pytest.raises(AppTimeout):
        call().result()


def test_the_limit_of_a_bash_app_kills_all_it_started(
    kernel: DataFlowKernel, tmp_path: Path
) -> None:
    path = tmp_path / "child"
    os.mkfifo(path)
    os.mkfifo(f"{path}.never")
    running = background(str(path), walltime=SHORT, stderr=os.devnull)
    child = int(path.read_text())
    with pytest.raises(AppTimeout, match=f"background.*{SHORT}"):
        running.result()
    while Path(f"/proc/{child}").exists():
        time.sleep(0.001)


@pytest.mark.parametrize("kind", ["threads", "engine"])
def test_a_limit_is_one_failure_among_others(make_kernel: Any, tmp_path: Path, kind: str) -> None:
    path = str(tmp_path / "attempts")

    def too_slow_once(walltime: float = SHORT) -> int:
        calls.append(path, "run")
        attempts = len(Path(path).read_text().splitlines())
        while attempts == 1:
            pass
        return attempts

    app = python_app(too_slow_once, data_flow_kernel=make_kernel(kind, retries=1))
    assert app().result() == 2


def test_a_call_that_waits_does_not_use_its_time(make_kernel: Any, hold: Gate) -> None:
    kernel = make_kernel("engine")
    # A function that is sent by value: both workers have imported what loads such a function before the limit counts.
    enter = python_app(lambda path: calls.enter(path), data_flow_kernel=kernel)
    held = [enter(hold.path) for _ in range(2)]
    for _ in held:
        hold.wait_entered()
    limited = python_app(sleep.func, data_flow_kernel=kernel)(0, walltime=SHORT)
    # Another task runs out of twice the limit, so more than the limit has passed.
    other = make_kernel("threads")
    wait([python_app(spin.func, data_flow_kernel=other)(walltime=2 * SHORT)])
    hold.open(2)
    assert limited.result() == "slept"
