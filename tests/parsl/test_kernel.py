"""The kernel: loading, running, inspection, and its end."""

from __future__ import annotations

import gc
import logging
import os
import subprocess
import sys
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any

import pytest

import gristmill.parsl as parsl
from gristmill import RemoteError
from gristmill.parsl import (
    Config,
    DataFlowKernel,
    GristmillExecutor,
    ThreadPoolExecutor,
    python_app,
)
from gristmill.parsl.dataflow.states import States
from gristmill.parsl.errors import ConfigurationError, NoDataFlowKernelError
from gristmill.parsl.executors.base import ParslExecutor

import calls
from kernels import configuration
from stage import Gate, Script

KINDS = pytest.mark.parametrize("kind", ["threads", "engine"])


@pytest.fixture
def unloaded() -> Any:
    """Makes sure that no kernel is loaded before and after the test."""
    parsl.clear()
    yield
    parsl.clear()


@pytest.mark.usefixtures("unloaded")
class TestLoading:
    def test_a_kernel_is_loaded_until_it_is_cleaned_up(self, tmp_path: Path) -> None:
        kernel = parsl.load(configuration("threads", tmp_path))
        assert parsl.dfk() is kernel
        kernel.cleanup()
        with pytest.raises(NoDataFlowKernelError):
            parsl.dfk()

    def test_only_one_is_loaded_at_a_time(self, tmp_path: Path) -> None:
        with parsl.load(configuration("threads", tmp_path)) as kernel:
            with pytest.raises(ConfigurationError, match="already"):
                parsl.load(configuration("threads", tmp_path))
            assert parsl.dfk() is kernel
        with parsl.load(configuration("threads", tmp_path)) as kernel:
            assert parsl.dfk() is kernel

    def test_a_kernel_that_is_cleared_goes_on(self, tmp_path: Path) -> None:
        kernel = parsl.load(configuration("threads", tmp_path))
        parsl.clear()
        with pytest.raises(NoDataFlowKernelError):
            parsl.dfk()
        assert python_app(abs, data_flow_kernel=kernel)(-1).result() == 1
        kernel.cleanup()

    def test_apps_use_the_kernel_that_is_loaded_when_they_are_called(self, tmp_path: Path) -> None:
        app = python_app(abs)
        for kind in ("threads", "engine"):
            with parsl.load(configuration(kind, tmp_path)) as kernel:
                future = app(-1)
                assert future.task_record["dfk"] is kernel
                assert future.result() == 1
        with pytest.raises(NoDataFlowKernelError):
            app(-1)

    def test_a_configuration_that_says_nothing_runs_on_the_engine(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        with parsl.load() as kernel:
            assert python_app(os.getpid)().result() != os.getpid()
            assert kernel.run_dir == str(tmp_path / "runinfo" / "000")
            assert Path(kernel.run_dir, "parsl.log").exists()

    def test_a_program_without_a_kernel_is_told_so(self) -> None:
        with pytest.raises(NoDataFlowKernelError, match="load"):
            parsl.wait_for_current_tasks()


@pytest.mark.parametrize(
    "options",
    [
        {"exit_mode": "nonsense"},
        {"strategy": "nonsense"},
        {"executor_choice": "nonsense"},
        {"retries": "1"},
        {"retry_handler": 1},
        {"task_limit": 0},
        {"task_limit": "1"},
    ],
)
def test_a_configuration_that_cannot_be_meant_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        Config(**options)


def test_labels_are_unique() -> None:
    with pytest.raises(ConfigurationError, match="twice"):
        Config(executors=[ThreadPoolExecutor(label="twice"), GristmillExecutor(label="twice")])


@KINDS
def test_a_kernel_that_has_ended_takes_no_tasks(make_kernel: Any, kind: str) -> None:
    kernel = make_kernel(kind)
    app = python_app(abs, data_flow_kernel=kernel)
    assert app(-1).result() == 1
    kernel.cleanup()
    with pytest.raises(NoDataFlowKernelError):
        app(-1)
    with pytest.raises(RuntimeError, match="already"):
        kernel.cleanup()


@KINDS
@pytest.mark.parametrize("mode", ["wait", "cleanup", "skip"])
def test_leaving_a_kernel_does_what_the_configuration_says(
    make_kernel: Any, hold: Gate, kind: str, mode: str
) -> None:
    kernel = make_kernel(kind, exit_mode=mode)
    with kernel:
        held = python_app(calls.enter, data_flow_kernel=kernel)(hold.path, 1)
        waits = python_app(calls.same, data_flow_kernel=kernel)([held])
        hold.open()
    assert kernel.cleanup_called == (mode != "skip")
    if mode == "wait":
        assert held.done()
        assert waits.result(timeout=0) == [1]
    # The kernel keeps track of both tasks in the other modes too.
    wait([held, waits])


def test_leaving_a_kernel_by_an_exception_does_not_wait(make_kernel: Any) -> None:
    never: Future[int] = Future()
    kernel = make_kernel("threads", exit_mode="wait")
    python_app(abs, data_flow_kernel=kernel)(never)
    with pytest.raises(KeyError), kernel:
        raise KeyError
    assert kernel.cleanup_called


@KINDS
def test_waiting_for_all_tasks_includes_those_whose_futures_were_dropped(
    make_kernel: Any, hold: Gate, tmp_path: Path, kind: str
) -> None:
    kernel = make_kernel(kind)
    held = python_app(calls.enter, data_flow_kernel=kernel)(hold.path, "line")
    append = python_app(calls.append, data_flow_kernel=kernel)
    for _ in range(20):
        append(str(tmp_path / "lines"), held)
    del held
    gc.collect()
    hold.open()
    kernel.wait_for_current_tasks()
    assert (tmp_path / "lines").read_text() == "line\n" * 20


@KINDS
def test_the_kernel_shows_its_tasks(make_kernel: Any, hold: Gate, kind: str) -> None:
    kernel = make_kernel(kind)
    held = [python_app(calls.enter, data_flow_kernel=kernel)(hold.path) for _ in range(2)]
    for _ in held:
        hold.wait_entered()
    waiting = python_app(calls.same, data_flow_kernel=kernel)(held)
    numbers = sorted(one.tid for one in (*held, waiting))
    assert numbers == [0, 1, 2]
    assert sorted(kernel.tasks) == numbers
    assert kernel.tasks[waiting.tid]["func_name"] == "same"
    assert kernel.tasks[held[0].tid]["app_fu"] is held[0]
    assert kernel.task_count == 3
    counts = kernel.task_state_counts
    assert (counts[States.launched], counts[States.pending]) == (2, 1)
    hold.open(2)
    waiting.result()
    failed = python_app(calls.fail, data_flow_kernel=kernel)()
    dependant = python_app(calls.same, data_flow_kernel=kernel)(failed)
    wait([failed, dependant])
    counts = kernel.task_state_counts
    assert [counts[one] for one in (States.exec_done, States.failed, States.dep_fail)] == [3, 1, 1]
    assert sum(counts.values()) == kernel.task_count == 5
    assert not kernel.tasks


class Unreadable:
    """A value that can be sent, but not be read again."""

    def __reduce__(self) -> tuple[type, tuple[str]]:
        return int, ("no number",)


def test_a_call_whose_value_cannot_be_read_counts_once(make_kernel: Any) -> None:
    kernel = make_kernel("engine", retries=2)
    app = python_app(lambda inputs: Unreadable(), data_flow_kernel=kernel)
    with pytest.raises(RemoteError, match="could not be read here"):
        app(inputs=[1]).result()
    python_app(abs, data_flow_kernel=kernel)(-1).result()
    counts = kernel.task_state_counts
    assert (counts[States.failed], counts[States.exec_done]) == (1, 1)
    assert sum(counts.values()) == kernel.task_count == 2


def test_tasks_are_kept_if_asked_for(make_kernel: Any) -> None:
    kernel = make_kernel("engine", garbage_collect=False)
    future = python_app(abs, data_flow_kernel=kernel)(-1)
    future.result()
    assert kernel.tasks[0]["status"] is States.exec_done


@KINDS
def test_an_executor_of_another_running_kernel_is_refused(
    make_kernel: Any, tmp_path: Path, kind: str
) -> None:
    first = make_kernel(kind)
    executor = first.executors["here"]
    config = Config(executors=[executor], run_dir=str(tmp_path / "second"))
    with pytest.raises(ConfigurationError, match=r"^the executor 'here' belongs to a kernel that"):
        DataFlowKernel(config)
    assert not (tmp_path / "second").exists()
    with pytest.raises(ConfigurationError, match=r"make an executor for each kernel"):
        first.add_executors([executor])
    with pytest.raises(ConfigurationError, match=r"^the executor 'here' belongs to a kernel that"):
        executor.start()
    assert python_app(abs, data_flow_kernel=first)(-1).result() == 1
    first.cleanup()
    with DataFlowKernel(config) as second:
        assert python_app(abs, data_flow_kernel=second)(-1).result() == 1


@pytest.mark.parametrize("make", [GristmillExecutor, ThreadPoolExecutor])
def test_an_executor_keeps_no_frames_of_the_exception_that_it_was_started_after(
    make: Callable[[], ParslExecutor],
) -> None:
    class Value:
        pass

    def start() -> weakref.ref[Value]:
        value = Value()
        try:
            raise OSError
        except OSError:
            executor.start()
        return weakref.ref(value)

    with make() as executor:
        reference = start()
        gc.collect()
        assert reference() is None


def test_executors_may_be_added_later(make_kernel: Any, tmp_path: Path) -> None:
    kernel = make_kernel("threads")
    kernel.add_executors([GristmillExecutor(label="late", max_workers=1)])
    assert list(kernel.executors) == ["here", "_parsl_internal", "late"]
    assert kernel.executors["late"].run_dir == kernel.run_dir
    app = python_app(os.getpid, data_flow_kernel=kernel, executors=["late"])
    assert app().result() != os.getpid()


class Broken(ParslExecutor):
    """An executor that cannot be started."""

    label = "broken"

    def start(self) -> None:
        """Fails."""
        raise OSError("no such machine")

    def submit(self, func: Any, /, resource_specification: Any, *args: Any, **kwargs: Any) -> Any:
        """Does nothing; the kernel never calls this."""

    def shutdown(self) -> None:
        """Does nothing."""


@pytest.mark.usefixtures("unloaded")
def test_an_executor_that_does_not_start_ends_the_load_and_leaves_nothing(tmp_path: Path) -> None:
    class Counted(ThreadPoolExecutor):
        ended = 0

        def shutdown(self, block: bool = True) -> None:
            Counted.ended += 1
            super().shutdown(block)

    broken = configuration("threads", tmp_path, executors=[Counted(), Broken()])
    with pytest.raises(OSError, match="machine"):
        parsl.load(broken)
    assert Counted.ended == 1
    with parsl.load(configuration("threads", tmp_path)):
        assert python_app(abs)(-1).result() == 1


def test_runs_have_numbered_folders(make_kernel: Any, tmp_path: Path) -> None:
    (tmp_path / "runs" / "checkpoints of mine").mkdir(parents=True)
    (tmp_path / "runs" / "017").mkdir()
    assert [Path(make_kernel("threads").run_dir).name for _ in range(2)] == ["018", "019"]


def test_programs_that_start_together_get_different_folders(tmp_path: Path) -> None:
    program = "from gristmill.parsl._kernel.run_folder import make_run_folder as make; input()\n"
    program += f"for _ in range(50): print(make({str(tmp_path)!r}))"
    running = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for _ in range(3)
    ]
    for process in running:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    folders = [line for process in running for line in process.communicate()[0].split()]
    assert len(set(folders)) == 150


def test_a_log_of_a_run_is_in_its_folder_and_ends_with_it(make_kernel: Any) -> None:
    kernel = make_kernel("threads", initialize_logging=True)
    path = Path(kernel.run_dir, "parsl.log")
    kernel.cleanup()
    size = path.stat().st_size
    assert "data-flow kernel" in path.read_text()
    logging.getLogger("parsl").warning("later")
    assert path.stat().st_size == size


def test_lines_of_a_log_begin_with_the_time_in_seconds(make_kernel: Any) -> None:
    began = time.time()
    kernel = make_kernel("threads", initialize_logging=True)
    kernel.cleanup()
    first, *_ = Path(kernel.run_dir, "parsl.log").read_text().split()
    assert began - 1e-6 <= float(first) <= time.time()


def test_a_program_that_forgets_to_clean_up_ends_and_is_warned(script: Script) -> None:
    printed = script.run(
        """
        import logging, sys
        import gristmill.parsl as parsl
        handler = logging.StreamHandler(sys.stdout)
        logging.getLogger("parsl").addHandler(handler)
        parsl.load(parsl.Config(initialize_logging=False, run_dir=sys.argv[1]))
        print(parsl.python_app(abs)(-1).result())
        """,
        str(script._folder / "runs"),
    )
    assert printed.startswith("1\n")
    assert "cleanup" in printed


def test_each_kernel_has_numbers_of_its_own(make_kernel: Any) -> None:
    for _ in range(2):
        app = python_app(abs, data_flow_kernel=make_kernel("engine"))
        assert [app(-1).tid, app(-1).tid] == [0, 1]


def test_numbers_go_up_on_both_ways_together(make_kernel: Any) -> None:
    kernel = make_kernel("engine")
    app = python_app(lambda value, inputs=(): value, data_flow_kernel=kernel)
    futures = [app(1), app(2, inputs=[3]), app(3), app(4, inputs=[5])]
    wait(futures)
    assert [one.tid for one in futures] == [0, 1, 2, 3]
