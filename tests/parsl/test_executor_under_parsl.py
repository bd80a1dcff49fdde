"""The engine as an executor in an unchanged configuration of Parsl, under Parsl's own kernel."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# The name "parsl" alone would find the folder of these tests.
pytest.importorskip("parsl.version")

import gristmill
import parsl
from gristmill.parsl import GristmillExecutor, ThreadPoolExecutor

from stage import Gate


@parsl.python_app
def pid() -> int:
    return os.getpid()


@parsl.python_app
def add(left: int, right: int, inputs: Any = ()) -> int:
    return left + right + sum(inputs)


@parsl.python_app
def fail(message: str) -> None:
    raise ValueError(message)


@parsl.python_app
def run(path: str, text: str, deaths: int = 0, parsl_resource_specification: Any = None) -> int:
    import calls

    return calls.die_first(path, deaths)


@parsl.python_app
def enter(
    path: str, walltime: float | None = None, parsl_resource_specification: Any = None
) -> None:
    import calls

    calls.enter(path)


@parsl.bash_app
def write(text: str, stdout: Any = None, stderr: Any = None) -> str:
    return f"echo {text}"


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Yields Parsl's kernel with our executor, and no other part of ours."""
    configuration = parsl.Config(
        executors=[GristmillExecutor(max_workers=2)],
        run_dir=str(tmp_path_factory.mktemp("runs")),
        strategy="none",
        initialize_logging=False,
        retries=1,
    )
    with parsl.load(configuration) as kernel:
        yield kernel


@pytest.mark.parametrize("kind", [GristmillExecutor, ThreadPoolExecutor])
def test_parsl_takes_our_executors_for_its_own(kind: type) -> None:
    executor = kind()
    assert isinstance(executor, parsl.executors.base.ParslExecutor)
    assert parsl.Config(executors=[executor]).executors == (executor,)


def test_apps_run_in_workers(kernel: Any) -> None:
    assert pid().result() != os.getpid()


def test_the_kernel_gives_the_executor_its_run(kernel: Any) -> None:
    executor = kernel.executors["gristmill"]
    assert executor.run_dir == kernel.run_dir
    assert executor.run_id == kernel.run_id


def test_apps_wait_for_each_other(kernel: Any) -> None:
    first = add(1, 2)
    assert add(first, 3, inputs=[first, add(first, first)]).result() == 3 + 3 + 3 + 6


def test_an_exception_of_an_app_has_its_type_and_the_workers_traceback(kernel: Any) -> None:
    with pytest.raises(ValueError, match="no") as failure:
        fail("no").result()
    assert failure.traceback[-1].name == "fail"


def test_a_bash_app_writes_its_output(kernel: Any, tmp_path: Path) -> None:
    path = tmp_path / "folder" / "output"
    assert write("hello", stdout=str(path)).result() == 0
    assert path.read_text() == "hello\n"


def test_a_task_whose_worker_died_is_retried_by_the_kernel(kernel: Any, tmp_path: Path) -> None:
    assert run(str(tmp_path / "runs"), "", deaths=1).result() == 2
    with pytest.raises(gristmill.WorkerLostError):
        run(str(tmp_path / "others"), "", deaths=2).result()


def test_a_specification_that_cannot_be_used_fails_the_task(kernel: Any, tmp_path: Path) -> None:
    specification = {"disk": 1}
    with pytest.raises(parsl.executors.errors.InvalidResourceSpecification) as refusal:
        run(str(tmp_path / "runs"), "", parsl_resource_specification=specification).result()
    assert refusal.value.invalid_keys == {"disk"}


def test_the_walltime_of_a_specification_ends_what_that_of_parsl_cannot(
    kernel: Any, tmp_path: Path
) -> None:
    gate = Gate(tmp_path)
    with pytest.raises(gristmill.TaskTimeoutError):
        enter(gate.path, parsl_resource_specification={"walltime": 0.05}).result()


def test_parsl_is_loaded_before_the_workers_are_forked(tmp_path: Path) -> None:
    note = tmp_path / "note"
    executor = GristmillExecutor(
        label="other",
        max_workers=1,
        initializer=lambda path: Path(path).write_text(str("parsl" in sys.modules)),
        initargs=(str(note),),
    )
    configuration = parsl.Config(
        executors=[executor], run_dir=str(tmp_path), strategy="none", initialize_logging=False
    )
    with parsl.DataFlowKernel(configuration) as kernel:
        parsl.python_app(os.getpid, data_flow_kernel=kernel)().result()
    assert note.read_text() == "True"


def test_the_end_of_the_kernel_leaves_no_process(tmp_path: Path) -> None:
    executor = GristmillExecutor(label="other", max_workers=1)
    configuration = parsl.Config(
        executors=[executor], run_dir=str(tmp_path), strategy="none", initialize_logging=False
    )
    kernel = parsl.DataFlowKernel(configuration)
    process = parsl.python_app(os.getpid, data_flow_kernel=kernel)().result()
    kernel.cleanup()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
