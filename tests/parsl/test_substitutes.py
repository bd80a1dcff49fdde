"""Configurations for Parsl's executors where Parsl is not installed: they run on the engine, or are refused."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from gristmill import _native
from gristmill.parsl import Config, python_app
from gristmill.parsl._kernel import launchers, providers
from gristmill.parsl._kernel.executors import substitutes
from gristmill.parsl._kernel.executors.substitutes import HighThroughputExecutor
from gristmill.parsl._kernel.launchers import SimpleLauncher
from gristmill.parsl._kernel.log_configs import FileLogging, JSONLogging
from gristmill.parsl._kernel.providers import LocalProvider, SlurmProvider
from gristmill.parsl.errors import OptionalModuleMissing

import calls

CORES = _native.cpu_count()


@pytest.mark.parametrize(
    ("options", "workers"),
    [
        ({}, CORES),
        ({"max_workers_per_node": 3}, 3),
        ({"max_workers_per_node": float("inf")}, CORES),
        ({"cores_per_worker": CORES}, 1),
        ({"cores_per_worker": 10 * CORES}, 1),
        ({"cores_per_worker": 0.5}, 2 * CORES),
        ({"mem_per_worker": 1_000_000}, 1),
        ({"mem_per_worker": 1_000_000, "max_workers_per_node": 4}, 1),
        ({"provider": LocalProvider(max_blocks=2), "max_workers_per_node": 3}, 6),
        ({"provider": LocalProvider(nodes_per_block=2), "max_workers_per_node": 1}, 2),
        ({"provider": LocalProvider(max_blocks=5)}, CORES),
        ({"available_accelerators": ["4", "2"], "max_workers_per_node": 8}, 2),
        ({"available_accelerators": 3, "max_workers_per_node": 1}, 1),
        ({"provider": LocalProvider(init_blocks=0, max_blocks=0), "max_workers_per_node": 1}, 1),
    ],
)
def test_it_has_the_workers_that_the_configuration_means(
    options: dict[str, Any], workers: int
) -> None:
    executor = HighThroughputExecutor(**options)
    assert executor.max_workers == executor.workers_per_node == workers


def test_a_local_configuration_of_parsls_documentation_runs(make_kernel: Any) -> None:
    executor = HighThroughputExecutor(
        label="htex_local",
        worker_debug=True,
        cores_per_worker=1,
        max_workers_per_node=2,
        address="127.0.0.1",
        encrypted=True,
        provider=LocalProvider(init_blocks=1, max_blocks=1, launcher=SimpleLauncher()),
    )
    kernel = make_kernel("engine", executors=[executor])
    assert python_app(pow, data_flow_kernel=kernel)(2, 3).result() == 8


def test_its_workers_are_bound_to_what_the_configuration_says(make_kernel: Any) -> None:
    core = max(os.sched_getaffinity(0))
    executor = HighThroughputExecutor(
        label="htex_bound",
        max_workers_per_node=1,
        cpu_affinity=f"list:{core}",
        available_accelerators=["7"],
    )
    kernel = make_kernel("engine", executors=[executor])
    assert python_app(calls.seen_gpus, data_flow_kernel=kernel)().result() == "7"
    assert python_app(os.sched_getaffinity, data_flow_kernel=kernel)(0).result() == {core}


def test_what_it_was_given_is_kept_and_printed() -> None:
    access: list[Any] = []
    executor = HighThroughputExecutor(
        label="mine", working_dir="/tmp", storage_access=access, heartbeat_period=7
    )
    assert (executor.label, executor.working_dir) == ("mine", "/tmp")
    assert executor.storage_access is access
    assert executor.heartbeat_period == 7  # type: ignore[attr-defined]
    assert "heartbeat_period=7" in repr(Config(executors=[executor]))
    names = vars(launchers) | {"LocalProvider": LocalProvider}
    assert eval(repr(executor.provider), names).max_blocks == 1


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"provider": object()}, "object"),
        ({"provider": LocalProvider(worker_init="module load python")}, "worker_init"),
        ({"launch_cmd": "process_worker_pool.py {debug}"}, "launch_cmd"),
    ],
)
def test_what_only_parsl_can_do_is_refused_by_name(options: dict[str, Any], named: str) -> None:
    with pytest.raises(OptionalModuleMissing, match=f"{named}.*pip install parsl"):
        HighThroughputExecutor(**options)


OTHERS = [(substitutes, name) for name in substitutes.__all__ if name != "HighThroughputExecutor"]
OTHERS += [(providers, name) for name in providers.__all__ if name != "LocalProvider"]
OTHERS += [
    (launchers, name) for name in launchers.__all__ if "Sim" not in name and "Sing" not in name
]


@pytest.mark.parametrize(("module", "name"), OTHERS, ids=[name for _, name in OTHERS])
def test_the_others_say_what_to_install_when_one_is_made(module: Any, name: str) -> None:
    with pytest.raises(OptionalModuleMissing, match=f"{name}.*pip install '?parsl") as failure:
        getattr(module, name)(label="cluster")
    assert failure.value.module_names == ["parsl"]


def test_a_provider_that_is_imported_and_not_used_does_no_harm() -> None:
    def choose(is_on_cluster: bool) -> Any:
        return SlurmProvider("queue") if is_on_cluster else LocalProvider()

    assert isinstance(choose(False), LocalProvider)


@pytest.mark.parametrize(
    ("setting", "name"), [(FileLogging(), "parsl.log"), (JSONLogging(), "parsl.jsonlog")]
)
def test_a_log_configuration_writes_the_steps_of_each_task(
    make_kernel: Any, setting: Any, name: str
) -> None:
    kernel = make_kernel("threads", initialize_logging=setting)
    python_app(abs, data_flow_kernel=kernel)(1).result()
    kernel.cleanup()
    text = Path(kernel.run_dir, name).read_text()
    assert "Task 0 is now exec_done" in text
    if name.endswith("jsonlog"):
        assert '"parsl.task_state": "exec_done"' in text
