"""Faults of workers and programs: only started tasks are lost, and the error says what happened."""

from __future__ import annotations

import concurrent.futures
import functools
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

import gristmill
from gristmill import Executor, StartError, TaskTimeoutError, UnpicklableError, WorkerLostError

import calls
from stage import (
    Gate,
    Script,
    descent,
    family,
    keepers,
    lives,
    next_stand_by,
    stand_bys,
    zygote_beside,
    zygotes,
)

MakeExecutor = Callable[..., Executor]


@pytest.mark.parametrize(
    ("function", "argument", "said"),
    [
        (calls.die, 9, ["signal 9 (SIGKILL)", "last words", "calls.die"]),
        (calls.die, 15, ["signal 15 (SIGTERM)", "last words"]),
        (calls.die, 11, ["signal 11 (SIGSEGV)", "last words"]),
        (calls.leave, 3, ["code 3", "leaving now"]),
        (calls.leave, 0, ["code 0", "leaving now"]),
    ],
)
def test_a_dead_worker_fails_what_it_had_started(
    executor: Executor, function: Callable[[int], None], argument: int, said: list[str]
) -> None:
    with pytest.raises(WorkerLostError) as caught:
        executor.submit(function, argument).result()
    text = str(caught.value)
    for part in said:
        assert part.rpartition(".")[2] in text
    for pattern in ("task ", "worker 0", "worker 1", "process "):
        assert pattern in text or pattern.startswith("worker")
    assert ("worker 0" in text) != ("worker 1" in text)
    assert executor.submit(calls.same, 1).result() == 1


@pytest.mark.interpreter
def test_a_crash_in_c(executor: Executor) -> None:
    with pytest.raises(WorkerLostError, match=r"SIGSEGV[\s\S]*before the crash"):
        executor.submit(calls.crash).result()
    assert executor.submit(calls.same, 1).result() == 1


def test_the_error_of_a_crash_has_the_python_stack(script: Script) -> None:
    printed = script.run(
        """
        import gristmill, calls
        for start in ("fork", "spawn"):
            with gristmill.Executor(1, start=start) as executor:
                print("in crash" in str(executor.submit(calls.crash).exception()))
        """
    )
    assert printed == "True\nTrue\n"


@pytest.mark.parametrize("imported", ["before", "after"])
def test_handlers_of_a_broken_process_pool_catch_the_errors_about_workers(
    script: Script, imported: str
) -> None:
    printed = script.run(
        """
        import sys
        import gristmill, calls
        if sys.argv[1] == "before":
            from concurrent.futures.process import BrokenProcessPool
        with gristmill.Executor(1) as executor:
            lost = executor.submit(calls.die, 9)
            gristmill.wait_any([lost])
            if sys.argv[1] == "after":
                from concurrent.futures.process import BrokenProcessPool
            try:
                lost.result()
            except BrokenProcessPool as error:
                print(type(error).__name__)
            print(executor.submit(abs, -1).result())
        with gristmill.Executor(1, calls.raise_at_start) as executor:
            try:
                executor.submit(abs, -1).result()
            except BrokenProcessPool as error:
                print(type(error).__name__)
        """,
        imported,
    )
    assert printed == "WorkerLostError\n1\nStartError\n"


def test_the_error_names_the_dead_process(executor: Executor, gate: Gate) -> None:
    future = executor.submit(calls.enter, gate.path)
    worker = gate.wait_entered()
    os.kill(worker, signal.SIGKILL)
    with pytest.raises(WorkerLostError, match=f"process {worker}"):
        future.result()


def test_unstarted_tasks_run_elsewhere(
    make_executor: MakeExecutor, gate: Gate, tmp_path: Path
) -> None:
    executor = make_executor(1)
    note = tmp_path / "note"
    started = executor.submit(calls.enter, gate.path)
    behind = [executor.submit(calls.append, str(note), str(number)) for number in range(100)]
    worker = gate.wait_entered()
    os.kill(worker, signal.SIGKILL)
    with pytest.raises(WorkerLostError):
        started.result()
    assert [future.result() for future in behind] == [str(number) for number in range(100)]
    assert note.read_text().split() == [str(number) for number in range(100)]
    assert executor.submit(calls.pid).result() != worker


def test_a_death_harms_no_other_worker(executor: Executor, gate: Gate) -> None:
    held = executor.submit(calls.enter, gate.path, "fine")
    gate.wait_entered()
    for _ in range(5):
        assert isinstance(executor.submit(os._exit, 1).exception(), WorkerLostError)
    gate.open()
    assert held.result() == "fine"


def test_answers_that_were_given_survive_the_worker(make_executor: MakeExecutor) -> None:
    executor = make_executor(1)
    futures = [executor.submit(calls.same, number) for number in range(500)]
    last = executor.submit(os._exit, 1)
    assert isinstance(last.exception(), WorkerLostError)
    assert [future.result() for future in futures] == list(range(500))


def test_a_task_that_keeps_killing_workers_is_failed(
    make_executor: MakeExecutor, tmp_path: Path
) -> None:
    executor = make_executor(1)
    note = tmp_path / "note"
    future = executor.options(loss_retries=100).submit(calls.die_first, str(note), 1000)
    with pytest.raises(WorkerLostError):
        future.result()
    assert 2 <= len(note.read_text().split()) <= 5
    assert executor.submit(calls.same, 1).result() == 1


def test_a_killed_keeper_is_survived(
    make_executor: MakeExecutor, gate: Gate, tmp_path: Path
) -> None:
    before = set(keepers())
    executor = make_executor(2)
    held = executor.submit(calls.enter, gate.path)
    gate.wait_entered()
    note = tmp_path / "note"
    others = [executor.submit(calls.append, str(note), str(number)) for number in range(200)]
    (keeper,) = set(keepers()) - before
    os.kill(keeper, signal.SIGKILL)
    with pytest.raises(WorkerLostError, match="keeper"):
        held.result()
    ended = [future.exception() for future in others]
    ran = note.read_text().split()
    assert len(ran) == len(set(ran)), "nothing ran twice"
    for number, error in enumerate(ended):
        assert error is None or isinstance(error, WorkerLostError)
        assert error is not None or str(number) in ran
    assert sum(error is not None for error in ended) <= 2
    assert executor.submit(calls.same, 1).result() == 1


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_keepers_that_are_killed_while_workers_start_cost_no_task(
    make_executor: MakeExecutor, gate: Gate, start: str
) -> None:
    before = set(keepers())
    executor = make_executor(1, initializer=calls.enter, initargs=(gate.path,), start=start)
    future = executor.submit(calls.same, "fine")
    for _ in range(8):
        gate.wait_entered()
        (keeper,) = set(keepers()) - before
        os.kill(keeper, signal.SIGKILL)
        while lives(keeper):
            time.sleep(0.001)
    gate.wait_entered()
    gate.open()
    assert future.result() == "fine"


@pytest.mark.interpreter
def test_a_killed_zygote_is_survived(make_executor: MakeExecutor, gate: Gate) -> None:
    before, stood_by = set(zygotes()), set(stand_bys())
    executor = make_executor(1)
    held = executor.submit(calls.enter, gate.path, "fine")
    worker = gate.wait_entered()
    stand_by = next_stand_by(stood_by)
    zygote = zygote_beside(before | {worker})
    os.kill(zygote, signal.SIGKILL)
    while lives(stand_by):
        time.sleep(0.001)
    gate.open()
    assert held.result() == "fine"
    assert executor.submit(calls.pid).result() == worker
    assert isinstance(executor.submit(os._exit, 1).exception(), WorkerLostError)
    assert executor.submit(calls.pid).result() != worker


@pytest.mark.interpreter
@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_an_initializer_that_raises(make_executor: MakeExecutor, start: str) -> None:
    executor = make_executor(2, initializer=calls.raise_at_start, start=start)
    futures = [executor.submit(calls.nothing) for _ in range(3)]
    for future in futures:
        with pytest.raises(StartError, match="no module of that name"):
            future.result()
    with pytest.raises(StartError, match="no module of that name"):
        executor.submit(calls.nothing)
    assert "raise_at_start" in str(futures[0].exception())


@pytest.mark.parametrize("start", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_an_initializer_that_ends_the_process(make_executor: MakeExecutor, start: str) -> None:
    executor = make_executor(1, initializer=calls.exit_at_start, start=start)
    with pytest.raises(StartError, match=r"code 7[\s\S]*giving up"):
        executor.submit(calls.nothing).result()


def test_a_module_that_cannot_be_imported_at_the_start(make_executor: MakeExecutor) -> None:
    executor = make_executor(1, preload=["a_module_that_no_package_has"])
    with pytest.raises(StartError, match="a_module_that_no_package_has"):
        executor.submit(calls.nothing).result()


@pytest.mark.interpreter
@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_a_missing_interpreter(
    make_executor: MakeExecutor, monkeypatch: pytest.MonkeyPatch, start: str
) -> None:
    monkeypatch.setattr(sys, "executable", "/there/is/no/python")
    executor = make_executor(1, start=start)
    with pytest.raises(StartError, match="/there/is/no/python"):
        executor.submit(calls.nothing).result()
    monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(StartError, match=r"sys\.executable is empty"):
        make_executor(1).submit(calls.nothing)


def test_an_unstarted_task_is_cancelled_at_once(
    make_executor: MakeExecutor, gate: Gate, tmp_path: Path
) -> None:
    executor = make_executor(1)
    note = tmp_path / "note"
    held = executor.submit(calls.enter, gate.path, "fine")
    gate.wait_entered()
    others = [executor.submit(calls.append, str(note), "ran") for _ in range(300)]
    assert all(future.cancel() for future in others)
    assert all(future.cancelled() and future.done() for future in others)
    assert all(future.cancel() for future in others)
    with pytest.raises(CancelledError):
        others[0].result()
    gate.open()
    assert held.result() == "fine"
    assert executor.submit(calls.same, 1).result() == 1
    assert not note.exists()


class EntersWhenForgotten:
    """An object that holds the worker that forgets a function which captures it."""

    def __init__(self, path: str, shift: int) -> None:
        self._path = path
        self._filling = "x" * shift
        self._maker = os.getpid()

    def __del__(self) -> None:
        if os.getpid() != self._maker:
            calls.enter(self._path)


# The room that the last record leaves in the ring depends on all records before it. Some of these shifts leave too
# little room for another record, whatever the length of the path.
@pytest.mark.parametrize("shift", range(0, 48, 8))
def test_a_worker_whose_ring_is_full_of_cancelled_tasks_leaves_at_the_end(
    make_executor: MakeExecutor, gate: Gate, shift: int
) -> None:
    executor = make_executor(1)
    captured = EntersWhenForgotten(gate.path, shift)
    assert executor.submit(lambda: captured and None).result() is None
    # Only this many functions that hold mutable objects are remembered.
    others = [executor.submit(functools.partial(calls.same, [number])) for number in range(20)]
    gate.wait_entered()
    others += [executor.submit(calls.nothing) for _ in range(6000)]
    for future in others:
        future.cancel()
    assert all(future.done() for future in others)
    # No task is left, so the worker is told to leave. It has read only up to the record that makes it forget the
    # function.
    executor.shutdown(wait=False)
    gate.open()
    executor.shutdown()


def test_a_running_task_is_not_cancelled_unless_asked(executor: Executor, gate: Gate) -> None:
    held = executor.submit(calls.enter, gate.path, "fine")
    gate.wait_entered()
    assert not held.cancel()
    assert held.running()
    gate.open()
    assert held.result() == "fine"
    assert not held.cancel(running=True)
    assert held.result() == "fine"


def test_cancel_interrupts_a_running_task(executor: Executor, gate: Gate, tmp_path: Path) -> None:
    note = tmp_path / "note"
    held = executor.submit(calls.enter_quietly, gate.path, str(note))
    worker = gate.wait_entered()
    assert held.cancel(running=True, grace=3600)
    with pytest.raises(CancelledError):
        held.result()
    assert held.cancelled()
    assert note.read_text() == "TaskInterrupted"
    pids = {executor.submit(calls.pid).result() for _ in range(50)}
    assert executor.stats().workers_killed == 0, f"worker {worker} lives on among {pids}"


@pytest.mark.interpreter
def test_cancel_interrupts_python_code_that_never_waits(executor: Executor, gate: Gate) -> None:
    def spin(path: str) -> None:
        gate_path = path
        with open(gate_path + ".entered", "r+b", buffering=0) as entered:
            entered.write(os.getpid().to_bytes(4, "little"))
        while True:
            pass

    held = executor.submit(spin, gate.path)
    gate.wait_entered()
    assert held.cancel(running=True, grace=3600)
    assert concurrent.futures.wait([held]).done == {held}
    assert held.cancelled()


def test_cancel_kills_what_does_not_let_itself_be_interrupted(
    make_executor: MakeExecutor, gate: Gate, tmp_path: Path
) -> None:
    executor = make_executor(1)
    note = tmp_path / "note"
    held = executor.submit(calls.enter_and_ignore, gate.path)
    worker = gate.wait_entered()
    behind = [executor.submit(calls.append, str(note), str(number)) for number in range(50)]
    assert held.cancel(running=True, grace=0.01)
    with pytest.raises(CancelledError):
        held.result()
    assert [future.result() for future in behind] == [str(number) for number in range(50)]
    assert len(note.read_text().split()) == 50
    assert executor.submit(calls.pid).result() != worker


@pytest.mark.interpreter
def test_a_timeout_stops_the_task(executor: Executor, gate: Gate, tmp_path: Path) -> None:
    note = tmp_path / "note"
    held = executor.options(timeout=2.0, grace=3600).submit(
        calls.enter_quietly, gate.path, str(note)
    )
    with pytest.raises(TaskTimeoutError, match="enter_quietly"):
        held.result()
    assert isinstance(held.exception(), TimeoutError)
    assert note.read_text() == "TaskInterrupted"


def test_a_timeout_stops_the_task_without_a_waiter(
    executor: Executor, gate: Gate, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "told")

    def tell(path: str, told: str) -> None:
        try:
            calls.enter(path)
        finally:
            with open(told, "w") as file:
                file.write("stopped")

    held = executor.options(timeout=2.0, grace=3600).submit(tell, gate.path, str(tmp_path / "told"))
    assert (tmp_path / "told").read_text() == "stopped"
    assert isinstance(held.exception(), TaskTimeoutError)


def test_a_timeout_stops_the_tasks_children(make_executor: MakeExecutor, gate: Gate) -> None:
    executor = make_executor(1)
    held = executor.options(timeout=2.0, grace=0.01).submit(calls.enter_with_child, gate.path)
    behind = [executor.submit(calls.same, number) for number in range(50)]
    with pytest.raises(TaskTimeoutError):
        held.result()
    child = int(Path(gate.path + ".child").read_text())
    while lives(child):
        time.sleep(0.001)
    assert [future.result() for future in behind] == list(range(50))


def test_a_timeout_harms_no_other_task(executor: Executor, gate: Gate) -> None:
    held = executor.submit(calls.enter, gate.path, "fine")
    gate.wait_entered()
    slow = [
        executor.options(timeout=0.02, grace=0.01).submit(calls.enter_and_ignore, gate.path)
        for _ in range(2)
    ]
    quick = [executor.submit(calls.same, number) for number in range(100)]
    assert [future.result() for future in quick] == list(range(100))
    assert all(isinstance(future.exception(), TaskTimeoutError) for future in slow)
    gate.close()
    assert held.result() == "fine"


def test_timeout_retries(make_executor: MakeExecutor, gate: Gate, tmp_path: Path) -> None:
    note = tmp_path / "note"

    def slow_at_first(path: str, written: str) -> str:
        calls.append(written, "run")
        if len(Path(written).read_text().split()) < 3:
            calls.enter(path)
        return "done"

    executor = make_executor(1)
    options = executor.options(timeout=1.0, timeout_retries=2)
    assert options.submit(slow_at_first, gate.path, str(note)).result() == "done"
    assert note.read_text().split() == ["run"] * 3


@pytest.mark.interpreter
def test_unpicklable_arguments_are_named(shared: Executor) -> None:
    class Holder:
        def __init__(self) -> None:
            self.inner = {"key": [1, threading.Lock()]}

    with pytest.raises(UnpicklableError, match=r"argument 1\.inner\['key'\]\[1\] \(lock\)"):
        shared.submit(calls.same, 0, Holder())
    with pytest.raises(TypeError, match=r"argument 'named'"):
        shared.submit(calls.both, named=threading.Lock())
    with pytest.raises(pickle.PicklingError):
        shared.submit(calls.same, [threading.Lock()])
    assert shared.submit(calls.same, 1).result() == 1


class Odd(Exception):
    """An exception that does not survive pickling."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


class WithLock(Exception):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.lock = threading.Lock()


@pytest.mark.interpreter
def test_an_exception_has_the_workers_traceback(shared: Executor) -> None:
    def outer() -> None:
        calls.fail("here")

    error = shared.submit(outer).exception()
    assert isinstance(error, ValueError)
    text = str(error.__cause__)
    assert isinstance(error.__cause__, gristmill.RemoteTraceback)
    assert "in outer" in text
    assert "in fail" in text
    assert 'calls.py", line' in text
    import traceback

    assert "in fail" in "".join(traceback.format_exception(error))


def _raise(error: BaseException) -> None:
    raise error


@pytest.mark.interpreter
def test_an_unpicklable_exception_arrives_as_text(shared: Executor) -> None:
    def odd() -> None:
        raise Odd(1, 2)

    def locked() -> None:
        raise WithLock("cannot travel")

    with pytest.raises(gristmill.RemoteError, match=r"Odd.*1 and 2") as caught:
        shared.submit(odd).result()
    assert "in odd" in str(caught.value.__cause__)
    assert caught.value.type_name.endswith("Odd")
    with pytest.raises(gristmill.RemoteError, match=r"WithLock.*cannot travel"):
        shared.submit(locked).result()


@pytest.mark.interpreter
def test_an_unpicklable_result_arrives_as_text(shared: Executor) -> None:
    with pytest.raises(gristmill.GristmillError, match="lock"):
        shared.submit(threading.Lock).result()
    with pytest.raises(gristmill.GristmillError, match=r"\['deep'\].*lock"):
        shared.submit(lambda: {"deep": threading.Lock()}).result()


@pytest.mark.interpreter
def test_exceptions_keep_type_traceback_cause_and_notes(shared: Executor) -> None:
    def work() -> None:
        try:
            {}["missing"]
        except KeyError as error:
            outer = ValueError("outer", 42)
            outer.add_note("a note")
            outer.extra = "attribute"  # type: ignore[attr-defined]
            raise outer from error

    with pytest.raises(ValueError, match="outer") as caught:
        shared.submit(work).result()
    error = caught.value
    assert type(error) is ValueError
    assert error.args == ("outer", 42)
    assert error.__notes__ == ["a note"]
    assert error.extra == "attribute"  # type: ignore[attr-defined]
    assert isinstance(error.__cause__, KeyError)
    text = str(error.__cause__.__cause__)
    assert isinstance(error.__cause__.__cause__, gristmill.RemoteTraceback)
    assert "in work" in text
    assert "missing" in text


@pytest.mark.interpreter
def test_exceptions_keep_their_context(shared: Executor) -> None:
    def work() -> None:
        try:
            {}["missing"]
        except KeyError:
            raise ValueError("while handling")  # noqa: B904 - what is tested

    error = shared.submit(work).exception()
    assert isinstance(error, ValueError)
    assert isinstance(error.__context__, KeyError)


@pytest.mark.interpreter
@pytest.mark.parametrize(
    "kind", [SystemExit, KeyboardInterrupt, GeneratorExit, StopIteration, MemoryError]
)
def test_unusual_exceptions_end_the_task_only(shared: Executor, kind: type[BaseException]) -> None:
    future = shared.submit(_raise, kind("unusual"))
    assert isinstance(future.exception(), kind)
    assert shared.submit(calls.same, 1).result() == 1


@pytest.mark.interpreter
def test_exception_groups(shared: Executor) -> None:
    error = shared.submit(_raise, ExceptionGroup("many", [ValueError(1), KeyError(2)])).exception()
    assert isinstance(error, ExceptionGroup)
    assert [type(one) for one in error.exceptions] == [ValueError, KeyError]


@pytest.mark.interpreter
def test_recursion_in_a_task_is_an_exception(shared: Executor) -> None:
    def deeper(depth: int) -> int:
        return deeper(depth + 1) + 1

    assert isinstance(shared.submit(deeper, 0).exception(), RecursionError)


@pytest.mark.interpreter
def test_prints_reach_the_client(
    make_executor: MakeExecutor, capfd: pytest.CaptureFixture[str]
) -> None:
    def work() -> None:
        print("to standard output")
        print("to standard error", file=sys.stderr)
        os.write(1, b"from below\n")

    executor = make_executor(1)
    executor.submit(work).result()
    executor.shutdown()
    printed, errors = capfd.readouterr()
    assert printed == "to standard output\nfrom below\n"
    assert errors == "to standard error\n"


def test_prints_are_off_by_choice(
    make_executor: MakeExecutor, capfd: pytest.CaptureFixture[str]
) -> None:
    executor = make_executor(1, output=False)
    executor.submit(print, "no reader").result()
    error = executor.submit(calls.leave, 1).exception()
    executor.shutdown()
    assert capfd.readouterr() == ("", "")
    assert "leaving now" in str(error), "the error has the last lines all the same"


@pytest.mark.interpreter
def test_a_forked_child_of_the_client_is_told(script: Script) -> None:
    printed = script.run(
        """
        import os, sys, warnings
        warnings.simplefilter("ignore")
        import gristmill

        executor = gristmill.Executor(1)
        unused = gristmill.Executor(1)
        future = executor.submit(int, "7")
        pending = executor.submit(int, "8")
        assert future.result() == 7
        child = os.fork()
        if child == 0:
            for attempt in (
                lambda: executor.submit(int),
                lambda: unused.submit(int),
                lambda: executor.map(int, ["1"]),
                lambda: executor.options(retries=1).submit(int),
                pending.result, pending.exception, pending.done, pending.cancel,
                lambda: gristmill.wait_any([pending]),
                lambda: executor.stats(),
                lambda: pending.add_done_callback(print),
            ):
                try:
                    attempt()
                except gristmill.ForkedProcessError as error:
                    assert "child" in str(error), error
                else:
                    print("no error")
            assert future.result() == 7, "a value that was fetched before is there"
            executor.shutdown()
            with gristmill.Executor(1) as own:
                print(own.submit(int, "9").result(), own.submit(int, "10").result())
            sys.exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        print(executor.submit(int, "11").result(), pending.result())
        """
    )
    assert printed == "9 10\n11 8\n"


def _mark() -> tuple[str, bytes]:
    mark = f"GRISTMILL_TEST_MARK={os.getpid()}.{os.urandom(8).hex()}"
    return mark, mark.encode()


def _wait_until_gone(mark: bytes) -> None:
    """Waits until no process carries the mark; the watchdog ends a wait that never succeeds."""
    while family(mark):
        time.sleep(0.001)


@pytest.mark.parametrize("start", ["fork", "spawn"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_the_end_of_the_client_leaves_no_process(
    script: Script, gate: Gate, start: str, number: signal.Signals
) -> None:
    mark, needle = _mark()
    name, _, value = mark.partition("=")
    client = script.start(
        """
        import subprocess, sys
        import calls, gristmill

        def with_child(path):
            subprocess.Popen(["sleep", "3600"], start_new_session=True)
            calls.enter(path)

        executor = gristmill.Executor(2, start=sys.argv[2])
        futures = [executor.submit(with_child, sys.argv[1]) for _ in range(2)]
        futures += [executor.submit(calls.nothing) for _ in range(1000)]
        futures[0].result()
        """,
        gate.path,
        start,
        env={name: value},
    )
    gate.wait_entered()
    gate.wait_entered()
    below = descent(client.pid)
    assert len(below) >= 5, "a keeper, two workers and their children"
    client.send_signal(number)
    assert client.wait() == -number
    _wait_until_gone(needle)
    while any(lives(process) for process in below):
        time.sleep(0.001)
    for stream in (client.stdin, client.stdout, client.stderr):
        assert stream is not None
        stream.close()


@pytest.mark.parametrize(
    "waiting",
    [
        "future.result()",
        "concurrent.futures.wait([future])",
        "list(concurrent.futures.as_completed([future]))",
        "gristmill.wait_any([future])",
        "list(executor.map(calls.enter, [sys.argv[1]]))",
        "executor.shutdown()",
    ],
)
def test_ctrl_c_returns_promptly(script: Script, gate: Gate, waiting: str) -> None:
    mark, needle = _mark()
    name, _, value = mark.partition("=")
    client = script.start(
        f"""
        import concurrent.futures, os, sys
        import calls, gristmill

        executor = gristmill.Executor(1)
        future = executor.submit(calls.enter, sys.argv[1])
        print("waiting", flush=True)
        try:
            {waiting}
        except KeyboardInterrupt:
            print("interrupted", flush=True)
            future.cancel(running=True)
            executor.shutdown(cancel_futures=True)
            print("gone", flush=True)
        """,
        gate.path,
        env={name: value},
        start_new_session=True,
    )
    gate.wait_entered()
    assert client.stdout is not None
    assert client.stdout.readline() == "waiting\n"
    # A terminal sends it so: the whole foreground group gets it.
    os.killpg(client.pid, signal.SIGINT)
    printed, errors = client.communicate()
    assert printed == "interrupted\ngone\n", errors
    _wait_until_gone(needle)
