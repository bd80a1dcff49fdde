"""Work that runs when a worker leaves in order: non-daemon threads, atexit handlers and finalizers, within a bounded
time.
"""

from __future__ import annotations

import multiprocessing
import operator
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import gristmill
from gristmill import Executor, on

import calls
import endings
from stage import Gate, Script

MakeExecutor = Callable[..., Executor]


@pytest.mark.parametrize("start", ["fork", "spawn"])
@pytest.mark.parametrize("way", list(endings.WAYS))
def test_what_a_task_left_to_the_end_runs_once(
    make_executor: MakeExecutor, tmp_path: Path, start: str, way: str
) -> None:
    path = tmp_path / "notes"
    executor = make_executor(1, start=start)
    executor.submit(endings.leave, str(path), way).result()
    assert not path.exists()
    executor.shutdown()
    assert path.read_text() == f"{way}\n"


@pytest.mark.parametrize(("start", "count"), [("fork", 3), ("spawn", 1)])
def test_tasks_one_after_the_other_start_one_interpreter(
    make_executor: MakeExecutor, tmp_path: Path, start: str, count: int
) -> None:
    path = tmp_path / "workers"
    path.touch()
    executor = make_executor(3, calls.note_process, (str(path),), start=start)
    for number in range(5):
        assert executor.submit(calls.same, number).result() == number
    while len(path.read_text().split()) < count:
        time.sleep(0.001)
    executor.shutdown()
    assert len(path.read_text().split()) == count


def test_interpreters_are_started_for_all_tasks_that_run_at_once(
    make_executor: MakeExecutor,
) -> None:
    executor = make_executor(3, start="spawn")
    with multiprocessing.get_context("spawn").Manager() as manager:
        meet = manager.Barrier(3)
        futures = [executor.submit(operator.methodcaller("wait"), meet) for _ in range(3)]
        assert sorted(future.result() for future in futures) == [0, 1, 2]


def test_a_worker_that_is_replaced_runs_its_end(
    make_executor: MakeExecutor, tmp_path: Path
) -> None:
    path = tmp_path / "notes"
    executor = make_executor(1, max_tasks_per_child=1)
    executor.submit(endings.leave, str(path), "atexit").result()
    executor.submit(endings.leave, str(path), "thread").result()
    executor.shutdown()
    assert sorted(path.read_text().split()) == ["atexit", "thread"]


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_what_a_preloaded_module_left_to_the_end_runs_in_its_own_process_only(
    make_executor: MakeExecutor,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    start: str,
) -> None:
    path = tmp_path / "notes"
    (tmp_path / "left_by_preload.py").write_text(
        "import atexit, os, tempfile, endings\n"
        "folder = tempfile.TemporaryDirectory()\n"
        f"atexit.register(endings.note_process, {str(path)!r}, os.getpid())\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    executor = make_executor(2, preload=["left_by_preload"], start=start)
    there = "__import__('os').path.isdir(__import__('left_by_preload').folder.name)"
    assert executor.submit(eval, there).result()
    executor.submit(endings.leave, str(path), "atexit").result()
    executor.shutdown()
    lines = path.read_text().split()
    assert "atexit" in lines
    assert set(lines) == {"atexit", "own"}
    if start == "fork":
        assert lines.count("own") == 1, "the zygote's"


def test_the_end_of_a_context_runs_what_its_setup_left(
    make_executor: MakeExecutor, tmp_path: Path
) -> None:
    path = tmp_path / "notes"
    executor = make_executor(1)
    context = gristmill.Context(endings.set_up, str(path), name="leaving")
    executor.options(context=context).submit(endings.leave, str(path), "atexit").result()
    executor.shutdown()
    # Each process has its own handler, and the rest of the setup runs before the handlers that it registered.
    lines = path.read_text().split()
    assert sorted(lines) == ["atexit", "handler", "rest"]
    assert lines.index("rest") < lines.index("handler")


def test_a_forked_call_in_a_context_runs_its_own_end(
    make_executor: MakeExecutor, tmp_path: Path
) -> None:
    path = tmp_path / "notes"
    executor = make_executor(1)
    context = gristmill.Context(dict, name="forks", calls=gristmill.ContextCalls(mode="fork"))
    executor.options(context=context).submit(endings.leave, str(path), "atexit").result()
    assert path.read_text() == "atexit\n"


def test_workers_of_nodes_run_their_ends(tmp_path: Path) -> None:
    path = tmp_path / "notes"
    with Executor(1, nodes=on.local(1, 1)) as executor:
        executor.submit(endings.leave, str(path), "atexit").result()
    # The node ends by itself, after the program has told it to.
    while not path.exists():
        time.sleep(0.001)


def test_a_child_of_a_handler_runs_no_other_handler(
    make_executor: MakeExecutor, tmp_path: Path
) -> None:
    path = tmp_path / "notes"
    executor = make_executor(1)
    executor.submit(endings.leave, str(path), "atexit").result()
    executor.submit(endings.register_fork).result()
    executor.shutdown()
    assert path.read_text() == "atexit\n"


def test_an_end_that_takes_too_long_says_where_it_is(script: Script) -> None:
    text = """
        import gristmill, endings
        with gristmill.Executor(1) as executor:
            executor.submit(endings.leave_for_ever).result()
        print("over")
    """
    with script.start(text) as process:
        printed, errors = process.communicate()
    assert printed == "over\n"
    assert "wait_for_ever" in errors


def test_an_error_in_a_handler_is_told_and_stops_no_other(script: Script, tmp_path: Path) -> None:
    path = tmp_path / "notes"
    text = f"""
        import gristmill, endings
        with gristmill.Executor(1) as executor:
            executor.submit(endings.leave, {str(path)!r}, "atexit").result()
            executor.submit(endings.register_error).result()
    """
    with script.start(text) as process:
        _, errors = process.communicate()
    assert "raised in a handler" in errors
    assert path.read_text() == "atexit\n"


def test_a_worker_that_is_slow_to_leave_keeps_no_place(
    make_executor: MakeExecutor, gate: Gate, tmp_path: Path
) -> None:
    """The next worker begins while a thread of the first one still has work, which it finishes."""
    path = tmp_path / "notes"
    executor = make_executor(1, max_tasks_per_child=1)
    first = executor.submit(endings.leave_thread_at, gate.path, str(path)).result()
    assert executor.submit(calls.pid).result() != first
    assert not path.exists()
    gate.open()
    executor.shutdown()
    assert path.read_text() == "thread\n"


def test_many_workers_that_are_slow_to_leave_are_bounded(
    make_executor: MakeExecutor, gate: Gate, tmp_path: Path
) -> None:
    path = tmp_path / "notes"
    executor = make_executor(1, max_tasks_per_child=1)
    processes = {
        executor.submit(endings.leave_thread_at, gate.path, str(path)).result() for _ in range(16)
    }
    assert len(processes) == 16
    gate.open(16)
    executor.shutdown()
    assert path.read_text() == "thread\n" * 16
