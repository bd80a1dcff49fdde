"""A process that user code forks ends where it leaves that code: it runs no task, answers none, and writes into no
ring.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import gristmill
from gristmill import Executor

import forks
from stage import Gate, Script

MakeExecutor = Callable[..., Executor]


def assert_later_tasks_run_once(executor: Executor, folder: Path) -> None:
    """Asserts that each later task runs once: a child that continued as the worker would run some again, or answer
    them.
    """
    path = folder / "later"
    later = [executor.submit(forks.note, str(path), number) for number in range(50)]
    for future in later:
        future.result()
    # This task runs after all others: a copy of the worker would still be busy.
    assert executor.submit(forks.same, 1).result() == 1
    executor.shutdown()
    runs = Counter(path.read_text().split())
    assert runs == Counter(str(number) for number in range(50))


@pytest.mark.parametrize("fork", ["fork", "forkpty", "clone"])
@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("return", 0),
        ("raise", 1),
        ("exec", 1),
        ("exit", 7),
        ("exit with a text", 1),
        ("exit without a code", 0),
    ],
)
def test_a_child_that_leaves_the_task_ends_with_the_code_of_how(
    make_executor: MakeExecutor, tmp_path: Path, fork: str, end: str, code: int
) -> None:
    if fork == "clone" and not gristmill._native.notices_clone():
        pytest.skip("this kernel has no MADV_WIPEONFORK: forks past the C library are not noticed")
    executor = make_executor(1)
    assert executor.submit(forks.split, fork, end).result() == code
    assert_later_tasks_run_once(executor, tmp_path)


def test_a_child_that_raises_says_so_and_writes_nothing_that_it_inherited(script: Script) -> None:
    text = """
        import gristmill, forks
        with gristmill.Executor(1) as executor:
            print("code", executor.submit(forks.split_with_output_pending).result())
    """
    with script.start(text) as process:
        printed, errors = process.communicate()
    assert "code 1" in printed
    assert printed.count("<pending>") == 1
    assert errors.count("<waiting>") == 1
    assert errors.count("ValueError: raised in the child") == 1
    assert "nonexistent" not in errors


@pytest.mark.parametrize("end", ["return", "raise"])
def test_a_child_of_a_thread_of_the_task(
    make_executor: MakeExecutor, tmp_path: Path, end: str
) -> None:
    executor = make_executor(1)
    assert executor.submit(forks.split_in_a_thread, end).result() == 0
    assert_later_tasks_run_once(executor, tmp_path)


def test_a_child_of_a_thread_that_a_task_left_behind(
    make_executor: MakeExecutor, tmp_path: Path
) -> None:
    executor = make_executor(1)
    path = str(tmp_path / "gate")
    os.mkfifo(path + ".leave")
    os.mkfifo(path + ".entered")
    executor.submit(forks.leave_a_thread, path).result()
    with open(path + ".leave", "wb", buffering=0) as gate:
        gate.write(b"x")
    said = Path(path + ".entered").read_text()
    assert said.startswith("0 there is no current executor")
    assert_later_tasks_run_once(executor, tmp_path)


@pytest.mark.parametrize("size", [10, 100_000, 4_000_000])
@pytest.mark.parametrize("raises", [False, True])
def test_a_child_of_the_encoding_of_a_result(
    make_executor: MakeExecutor, tmp_path: Path, size: int, raises: bool
) -> None:
    executor = make_executor(1)
    path = tmp_path / "codes"
    result = executor.submit(forks.make_pickled, str(path), size, raises=raises).result()
    assert bytes(result) == b"x" * size
    # If the child raises, the object is pickled more often, because the culprit is searched by pickling the parts.
    assert set(path.read_text().split()) == {"1" if raises else "0"}
    assert_later_tasks_run_once(executor, tmp_path)


def test_a_child_of_the_decoding_of_an_argument_does_not_run_the_task(
    make_executor: MakeExecutor, tmp_path: Path
) -> None:
    executor = make_executor(1)
    path = tmp_path / "notes"
    argument = forks.ForksWhenLoaded(str(path))
    assert executor.submit(forks.run_and_note, str(path), argument).result() == "ran"
    assert path.read_text().split("\n") == ["0", "ran ForksWhenLoaded", ""]
    assert_later_tasks_run_once(executor, tmp_path)


@pytest.mark.parametrize(
    ("function", "expected"), [(forks.make_gone, "pickled"), (forks.drop_gone, "dropped")]
)
def test_a_child_of_a_finalizer(
    make_executor: MakeExecutor,
    tmp_path: Path,
    function: Callable[[str], object],
    expected: str,
) -> None:
    executor = make_executor(1)
    path = tmp_path / "codes"
    assert executor.submit(function, str(path)).result() == expected
    if function is forks.make_gone:
        assert path.read_text().split() == ["0"]
    assert_later_tasks_run_once(executor, tmp_path)


def test_a_child_of_the_encoding_of_an_exception(
    make_executor: MakeExecutor, tmp_path: Path
) -> None:
    executor = make_executor(1)
    path = tmp_path / "codes"
    error = executor.submit(forks.raise_forking, str(path)).exception()
    assert isinstance(error, ValueError | gristmill.RemoteError)
    assert set(path.read_text().split()) == {"0"}
    assert_later_tasks_run_once(executor, tmp_path)


def test_a_child_of_the_import_of_a_function(
    make_executor: MakeExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "forks_when_imported.py"
    module.write_text(
        "import os, sys\n"
        "if 'GRISTMILL_WORKER' in os.environ:\n"
        "    child = os.fork()\n"
        "    if child:\n"
        "        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])\n"
        "def seen():\n"
        "    return code\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import forks_when_imported

    executor = make_executor(1)
    assert executor.submit(forks_when_imported.seen).result() == 0
    assert_later_tasks_run_once(executor, tmp_path)


@pytest.mark.parametrize("end", ["return", "raise"])
@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_a_child_of_the_initializer_is_no_worker(
    make_executor: MakeExecutor, tmp_path: Path, start: str, end: str
) -> None:
    path = tmp_path / "codes"
    executor = make_executor(
        1, initializer=forks.initialize_forking, initargs=(str(path), end), start=start
    )
    assert executor.submit(forks.same, 3).result() == 3
    assert path.read_text().split() == ["1" if end == "raise" else "0"]
    assert_later_tasks_run_once(executor, tmp_path)


def test_a_child_of_a_preloaded_module_is_no_zygote(
    make_executor: MakeExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "forks_when_preloaded.py"
    module.write_text(
        "import os\n"
        "child = os.fork()\n"
        "code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) if child else None\n"
        "def seen():\n"
        "    return code\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    executor = make_executor(1, preload=["forks_when_preloaded"])
    look = executor.submit(eval, "__import__('forks_when_preloaded').seen()")
    assert look.result() == 0
    assert_later_tasks_run_once(executor, tmp_path)


@pytest.mark.parametrize("what", ["submit", "result", "cancel", "done", "current"])
def test_a_child_cannot_use_the_executor_of_the_task(
    make_executor: MakeExecutor, tmp_path: Path, what: str
) -> None:
    executor = make_executor(1)
    assert executor.submit(forks.use_parent, what).result() == (0, 1)
    assert_later_tasks_run_once(executor, tmp_path)


def test_a_child_of_the_encoding_of_a_nested_argument(
    make_executor: MakeExecutor, tmp_path: Path
) -> None:
    executor = make_executor(1)
    code, value = executor.submit(forks.submit_forking).result()
    assert (code, value) == (1, "argument"), "the child gets a ForkedProcessError, and ends with it"
    assert_later_tasks_run_once(executor, tmp_path)


@pytest.mark.parametrize("fork_in", ["signal", "callback"])
def test_a_child_of_what_runs_while_a_task_waits(
    make_executor: MakeExecutor, tmp_path: Path, fork_in: str
) -> None:
    executor = make_executor(2)
    path = tmp_path / "notes"
    assert executor.submit(forks.wait_forking, str(path), fork_in).result() == 5
    first, code, *others = path.read_text().split("\n")
    assert first == "forked"
    if fork_in == "callback":
        assert (code, others) == ("0", ["second callback", ""])
    else:
        # The child continues from the handler: in the waiting task, which then cannot wait, or in a task below its
        # wait.
        assert (code in "01", others) == (True, [""])
    assert_later_tasks_run_once(executor, tmp_path)


@pytest.mark.parametrize("what", ["Process", "Pool", "Manager", "ProcessPoolExecutor"])
def test_multiprocessing_by_fork_in_a_task(
    make_executor: MakeExecutor, tmp_path: Path, what: str
) -> None:
    executor = make_executor(1)
    assert executor.submit(forks.use_multiprocessing, what).result() == [0, 1, 4]
    assert_later_tasks_run_once(executor, tmp_path)


def test_a_program_that_is_spawned_is_no_fork(make_executor: MakeExecutor, tmp_path: Path) -> None:
    executor = make_executor(1)
    assert executor.submit(forks.spawn_program).result() == 0
    assert_later_tasks_run_once(executor, tmp_path)


@pytest.mark.parametrize("chunksize", [1, 25])
def test_children_of_calls_amid_a_map(
    make_executor: MakeExecutor, tmp_path: Path, chunksize: int
) -> None:
    executor = make_executor(1)
    path = tmp_path / "notes"
    paths = [str(path)] * 100
    assert list(executor.map(forks.split_some, paths, range(100), chunksize=chunksize)) == list(
        range(100)
    )
    assert Counter(path.read_text().split()) == Counter(str(number) for number in range(100))
    assert_later_tasks_run_once(executor, tmp_path)


@pytest.mark.parametrize("mode", ["direct", "fork"])
def test_children_of_a_setup_and_of_calls_in_its_context(
    make_executor: MakeExecutor, tmp_path: Path, mode: str
) -> None:
    path = tmp_path / "notes"
    executor = make_executor(1)
    context = gristmill.Context(
        forks.set_up_forking, str(path), name="forking", calls=gristmill.ContextCalls(mode=mode)
    )
    within = executor.options(context=context)
    for end, code in (("return", 0), ("raise", 1), ("exit", 7)):
        assert within.submit(forks.split, "fork", end).result() == code
    assert_later_tasks_run_once(executor, tmp_path)
    assert path.read_text().split("\n") == ["before 0", "after 1", ""]


def test_a_child_of_a_callback_runs_no_other_callback(executor: Executor, gate: Gate) -> None:
    import calls

    seen: list[object] = []
    path = gate.path + ".callbacks"
    called = threading.Event()

    def fork(_: object) -> None:
        child = os.fork()
        if child:
            seen.append(forks.end_of(child))
        else:
            sys.exit(6)

    def last(_: object) -> None:
        forks.note(path, "called")
        called.set()

    futures = [executor.submit(calls.enter, gate.path), executor.submit(forks.same, 1)]
    gate.wait_entered()
    futures[0].add_done_callback(fork)
    futures[0].add_done_callback(last)
    gate.open()
    assert called.wait(60)
    assert seen == [6]
    assert Path(path).read_text() == "called\n"


@pytest.mark.parametrize("fork", ["fork", "clone"])
def test_the_program_may_fork_and_its_child_has_no_executor(script: Script, fork: str) -> None:
    if fork == "clone" and not gristmill._native.notices_clone():
        pytest.skip("this kernel has no MADV_WIPEONFORK: forks past the C library are not noticed")
    said = script.run(
        f"""
        import os, sys
        import gristmill, forks
        executor = gristmill.Executor(1)
        future = executor.submit(forks.same, 1)
        assert future.result() == 1
        child = forks.FORKS[{fork!r}]()
        if not child:
            try:
                executor.submit(forks.same, 2)
            except gristmill.ForkedProcessError:
                os._exit(3)
            os._exit(4)
        print("code", forks.end_of(child), executor.submit(forks.same, 5).result())
        """
    )
    assert said.split() == ["code", "3", "5"]
