"""Nonsensical values are refused with a message that names the option or the special argument."""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest

import gristmill.parsl as parsl
from gristmill.parsl import (
    Config,
    DataFlowKernel,
    File,
    GristmillExecutor,
    MonitoringHub,
    ThreadPoolExecutor,
    bash_app,
    join_app,
    python_app,
)
from gristmill.parsl._kernel.executors.specification import read
from gristmill.parsl._kernel.executors.substitutes import HighThroughputExecutor
from gristmill.parsl.dataflow.memoization import BasicMemoizer
from gristmill.parsl.errors import ConfigurationError
from gristmill.parsl.executors.errors import InvalidResourceSpecification

import calls

HUGE = 10**400
ARRAY = numpy.zeros(3)


class Odd:
    """A value that cannot be converted, not even to a text."""

    def __repr__(self) -> str:
        raise ZeroDivisionError


CONFIG = [
    ("executors", 3, TypeError),
    ("executors", "ab", TypeError),
    ("executors", [3], TypeError),
    ("retries", -1, ValueError),
    ("retries", HUGE, ValueError),
    ("retries", True, TypeError),
    ("loss_retries", -1, ValueError),
    ("loss_retries", "x", TypeError),
    ("internal_tasks_max_threads", 0, ValueError),
    ("strategy", ARRAY, TypeError),
    ("exit_mode", ARRAY, TypeError),
    ("executor_choice", ARRAY, TypeError),
    ("strategy_period", math.nan, ValueError),
    ("max_idletime", -math.inf, ValueError),
    ("run_dir", "a\0b", ValueError),
    ("garbage_collect", Odd(), TypeError),
    ("retry_handler", Odd(), TypeError),
    ("memoizer", Odd(), TypeError),
]
MEMOIZER = [
    ("checkpoint_files", 3, ConfigurationError),
    ("checkpoint_files", [3], ConfigurationError),
    ("checkpoint_mode", ARRAY, ConfigurationError),
    ("durable", "no", TypeError),
    ("memoize", Odd(), TypeError),
]
THREADS = [
    ("label", 3, TypeError),
    ("max_threads", 0, ValueError),
    ("max_threads", "x", TypeError),
    ("thread_name_prefix", 3, TypeError),
    ("storage_access", 3, TypeError),
    ("working_dir", 3, TypeError),
    ("working_dir", "a\0b", ValueError),
]
ENGINE = [
    ("label", 3, TypeError),
    ("initializer", 3, TypeError),
    ("storage_access", 3, TypeError),
    ("working_dir", 3, TypeError),
]
PROCESSES = [
    ("label", 3, TypeError),
    ("cores_per_worker", 0, ValueError),
    ("cores_per_worker", "x", TypeError),
    ("mem_per_worker", math.nan, ValueError),
    ("max_workers_per_node", math.nan, ValueError),
    ("max_workers_per_node", "x", TypeError),
    ("available_accelerators", 3.5, ValueError),
    ("available_accelerators", HUGE, ValueError),
    ("cpu_affinity", "x", ValueError),
    ("storage_access", 3, TypeError),
]
APPS = [
    ("executors", 3, TypeError),
    ("executors", ARRAY, TypeError),
    ("executors", Odd(), TypeError),
    ("executors", [], TypeError),
    ("cache", Odd(), TypeError),
    ("ignore_for_cache", 3, TypeError),
    ("ignore_for_cache", b"x", TypeError),
    ("ignore_for_cache", [3], TypeError),
    ("context", 3, TypeError),
    ("data_flow_kernel", 3, TypeError),
]
HUB = [
    ("workflow_name", 3, TypeError),
    ("workflow_version", 3, TypeError),
    ("logging_endpoint", 3, TypeError),
    ("resource_monitoring_interval", math.inf, TypeError),
    ("resource_monitoring_interval", Odd(), TypeError),
    ("resource_monitoring_enabled", "no", TypeError),
]
FILES = [("url", 3, TypeError), ("url", "http://[", ValueError)]


def memoizer(**terms: Any) -> BasicMemoizer:
    return BasicMemoizer(**terms)


MAKES: dict[str, tuple[Callable[..., Any], list[tuple[str, Any, type[Exception]]]]] = {
    "Config": (Config, CONFIG),
    "BasicMemoizer": (memoizer, MEMOIZER),
    "ThreadPoolExecutor": (ThreadPoolExecutor, THREADS),
    "GristmillExecutor": (GristmillExecutor, ENGINE),
    "HighThroughputExecutor": (HighThroughputExecutor, PROCESSES),
    "python_app": (lambda **terms: python_app(calls.same, **terms), APPS),
    "bash_app": (lambda **terms: bash_app(calls.same, **terms), APPS),
    "join_app": (
        lambda **terms: join_app(calls.same, **terms),
        [one for one in APPS if one[0] in ("cache", "ignore_for_cache", "data_flow_kernel")],
    ),
    "MonitoringHub": (MonitoringHub, HUB),
    "File": (File, FILES),
}


@pytest.mark.parametrize(
    ("make", "option", "value", "kind"),
    [
        pytest.param(make, *case, id=f"{name}-{case[0]}-{number}")
        for name, (make, cases) in MAKES.items()
        for number, case in enumerate(cases)
    ],
)
def test_an_option_that_cannot_be_meant_is_refused_and_named(
    make: Callable[..., Any], option: str, value: Any, kind: type[Exception]
) -> None:
    with pytest.raises(kind, match=option):
        make(**{option: value})


@pytest.mark.parametrize("period", ["99999999999:00:00", f"{'9' * 5000}:00:00", Odd()])
def test_a_period_that_no_thread_can_wait_for_is_refused(period: Any) -> None:
    with pytest.raises(ConfigurationError, match="checkpoint_period"):
        BasicMemoizer(checkpoint_mode="periodic", checkpoint_period=period)


@pytest.mark.parametrize("number", [-1, 2**31, HUGE])
def test_a_number_of_accelerators_that_no_machine_has_is_refused(number: int) -> None:
    executor = GristmillExecutor(available_accelerators=number)
    with pytest.raises(ValueError, match="available_accelerators"):
        executor.start()


@pytest.mark.parametrize("config", [3, None, Odd()])
def test_what_is_no_configuration_makes_no_kernel(config: Any) -> None:
    with pytest.raises(TypeError, match="config must be a Config"):
        DataFlowKernel(config)
    if config is not None:
        with pytest.raises(TypeError, match="config must be a Config"):
            parsl.load(config)


ARGUMENTS = [
    ("inputs", 3, TypeError),
    ("inputs", "ab", TypeError),
    ("outputs", 3, TypeError),
    ("outputs", [3], TypeError),
    ("outputs", ARRAY, TypeError),
    ("outputs", Odd(), TypeError),
    ("walltime", "x", TypeError),
    ("walltime", True, TypeError),
    ("walltime", -1, ValueError),
    ("walltime", math.nan, ValueError),
    ("walltime", 1e300, ValueError),
    ("parsl_resource_specification", 3, TypeError),
    ("parsl_resource_specification", [1], TypeError),
]


@pytest.mark.parametrize(("name", "value", "kind"), ARGUMENTS)
@pytest.mark.parametrize("make", [python_app, bash_app])
def test_an_argument_that_cannot_be_meant_is_refused_where_the_app_is_called(
    kernel: DataFlowKernel, make: Any, name: str, value: Any, kind: type[Exception]
) -> None:
    with pytest.raises(kind, match=name):
        make(calls.same)("true", **{name: value})


def test_arguments_that_ask_for_nothing_are_taken(kernel: DataFlowKernel) -> None:
    nothing = {"walltime": math.inf, "outputs": [], "parsl_resource_specification": None}
    assert python_app(keep)(7, **nothing).result() == 7
    assert python_app(keep)(7, walltime=1e10).result() == 7
    assert bash_app(line)(**nothing).result() == 0


def keep(value: int, **_named: Any) -> int:
    return value


def line(**_named: Any) -> str:
    return "true"


@pytest.mark.parametrize(
    ("key", "value"),
    [("walltime", HUGE), ("walltime", 1e308), ("walltime", True), ("memory", HUGE), ("gpus", HUGE)],
)
def test_a_specification_that_cannot_be_meant_names_its_key(key: str, value: Any) -> None:
    with pytest.raises(InvalidResourceSpecification, match=key):
        read({key: value})


def test_as_many_retries_as_one_likes_can_be_asked_for(
    make_kernel: Callable[..., DataFlowKernel],
) -> None:
    kernel = make_kernel("engine", retries=10**6, loss_retries=10**6)
    assert python_app(calls.same, data_flow_kernel=kernel)(7).result() == 7


@pytest.mark.parametrize(
    ("timeout", "kind"), [("x", TypeError), (math.nan, ValueError), ([], TypeError)]
)
def test_a_wait_that_cannot_be_meant_is_refused(
    make_kernel: Callable[..., DataFlowKernel], timeout: Any, kind: type[Exception]
) -> None:
    kernel, is_over = make_kernel("threads"), threading.Event()
    future = python_app(is_over.wait, data_flow_kernel=kernel)()
    try:
        for wait in (future.result, future.exception):
            with pytest.raises(kind, match="timeout"):
                wait(timeout)
    finally:
        is_over.set()
    assert future.result(1e300) is True
    assert future.exception(math.inf) is None


def test_an_app_can_be_made_of_whatever_can_be_called(kernel: DataFlowKernel) -> None:
    assert python_app(functools.partial(calls.same, 7))().result() == 7
    assert python_app(Callee())(7).result() == 8


class Callee:
    """A callable object without a name."""

    def __call__(self, number: int) -> int:
        return number + 1


def test_a_runs_folder_may_be_a_path(tmp_path: Path) -> None:
    assert Config(run_dir=tmp_path).run_dir == tmp_path  # type: ignore[arg-type]


def test_a_folder_of_runs_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.touch()
    for place in ("9" * 300, str(taken), str(taken / "below")):
        with pytest.raises(OSError, match="run_dir"):
            DataFlowKernel(Config(run_dir=place))
