"""The reason why an app's task does not run: the kernel and its executor give it in words."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from gristmill.parsl import DataFlowKernel, File, join_app, python_app
from gristmill.parsl.dataflow.memoization import BasicMemoizer

import calls
from stage import Gate, Script

MakeKernel = Callable[..., DataFlowKernel]


def held(kernel: DataFlowKernel, gate: Gate, count: int = 2) -> list[Any]:
    """Fills all workers with tasks that wait at the gate."""
    enter = python_app(calls.enter, data_flow_kernel=kernel)
    futures = [enter(gate.path, number) for number in range(count)]
    for _ in futures:
        gate.wait_entered()
    return futures


def test_a_task_that_the_engine_runs_by_itself_says_where_it_is(
    make_kernel: MakeKernel, gate: Gate
) -> None:
    kernel = make_kernel("engine")
    first, *_ = held(kernel, gate)
    waiting = python_app(calls.nothing, data_flow_kernel=kernel)()
    for explain in (kernel.explain, kernel.executors["here"].explain):
        assert "(enter) runs on worker" in explain(first)
        assert "before it" in explain(waiting)
    assert kernel.explain(first).startswith("Task 0 is one of executor here. ")
    gate.open(2)
    assert first.result() == 0
    assert "has ended" in kernel.explain(first)


def test_a_task_of_the_graph_says_what_it_waits_for(make_kernel: MakeKernel, gate: Gate) -> None:
    kernel = make_kernel("engine", retry_handler=lambda *_: 1)
    first, second = held(kernel, gate)
    both = python_app(calls.both, data_flow_kernel=kernel)
    dependant, waiting = both(first, second), both(1)
    for explain in (kernel.explain, kernel.executors["here"].explain):
        said = explain(first)
        assert said.startswith("Task 0 (enter) was given to executor here. ")
        assert "runs on worker" in said
        assert "before it" in explain(waiting)
        assert explain(dependant) == (
            "Task 2 (both) waits in the graph for the futures among its arguments: task 0, task 1."
        )
    gate.open(2)
    assert dependant.result()
    assert kernel.explain(dependant) == "Task 2 (both) has ended: exec_done."


def test_a_join_app_says_what_it_has_joined(make_kernel: MakeKernel) -> None:
    kernel = make_kernel("engine")
    parts: list[Future[Any]] = [Future() for _ in range(5)]
    joined = join_app(lambda: parts, data_flow_kernel=kernel)()
    while joined.task_status() != "joining":
        pass
    said = kernel.explain(joined)
    assert "has run, and waits for the futures that it returned: <Future" in said
    assert said.endswith(", 2 more.")
    for part in parts:
        part.set_result(None)
    joined.result()


def test_a_call_that_is_written_down_says_where_it_is(make_kernel: MakeKernel, gate: Gate) -> None:
    kernel = make_kernel("engine", memoizer=BasicMemoizer(checkpoint_mode="task_exit"))
    enter = python_app(calls.enter, data_flow_kernel=kernel, cache=True)
    first, same = enter(gate.path, 1), enter(gate.path, 1)
    gate.wait_entered()
    assert "runs on worker" in kernel.explain(first)
    assert "Task 1" in kernel.explain(same)
    gate.open()
    assert first.result() == same.result() == 1
    assert "has ended" in kernel.explain(first)


def test_the_file_of_a_task_says_where_the_task_is(
    make_kernel: MakeKernel, gate: Gate, tmp_path: Path
) -> None:
    def write(path: str, outputs: Any = ()) -> None:
        calls.enter(path)

    kernel = make_kernel("engine")
    future = python_app(write, data_flow_kernel=kernel)(
        gate.path, outputs=[File(str(tmp_path / "file"))]
    )
    gate.wait_entered()
    for explain in (kernel.explain, kernel.executors["here"].explain):
        assert "(write) was given to executor here" in explain(future.outputs[0])
    gate.open()
    future.result()


def test_an_executor_of_another_kind_is_named(make_kernel: MakeKernel, gate: Gate) -> None:
    kernel = make_kernel("threads")
    first, *_ = held(kernel, gate)
    assert "was given to executor here. This executor cannot explain" in kernel.explain(first)
    gate.open(2)


def test_only_futures_of_its_own_are_explained(make_kernel: MakeKernel) -> None:
    one, other = make_kernel("engine"), make_kernel("engine")
    theirs = python_app(calls.nothing, data_flow_kernel=other)()
    for future in (theirs, Future[Any]()):
        with pytest.raises(TypeError, match="only the futures that it returned"):
            one.explain(future)
        with pytest.raises(TypeError, match="the futures that it returned"):
            one.executors["here"].explain(future)


def test_tasks_of_parsls_kernel_are_explained_by_their_executor(
    script: Script, tmp_path: Path, gate: Gate
) -> None:
    pytest.importorskip("parsl.version")
    program = """
        import sys
        import parsl
        import calls
        from gristmill.parsl import GristmillExecutor

        executor = GristmillExecutor(max_workers=1)
        with parsl.load(parsl.Config(executors=[executor], run_dir=sys.argv[1])) as kernel:
            first = parsl.python_app(calls.enter)(sys.argv[2], 1)
            second = parsl.python_app(calls.same)(first)
            while "runs on worker" not in executor.explain(first):
                pass
            print(executor.explain(second))
            with open(sys.argv[2] + ".leave", "r+b", buffering=0) as leave:
                leave.write(b".")
            print(second.result())
    """
    printed = script.run(program, str(tmp_path / "runs"), gate.path)
    waits = "It waits in the graph of Parsl's kernel for the futures among its arguments."
    assert printed.splitlines() == [waits, "1"]
