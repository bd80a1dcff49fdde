"""Programs that end while tasks run: by a batch system's signal or by themselves, with or without a handler."""

from __future__ import annotations

import signal
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gristmill import Executor

from stage import Gate, Script, descent, lives

MakeExecutor = Callable[..., Executor]
WARNINGS = [signal.SIGTERM, signal.SIGHUP]


def wait_until_gone(processes: list[int]) -> None:
    while any(lives(process) for process in processes):
        time.sleep(0.001)


#: A program as docs/explanation/program-end.md recommends it: it starts no new task, and running tasks may end.
STOPS_ON_A_SIGNAL = """
    import signal, sys
    import calls, gristmill

    def stop(number, frame):
        executor.shutdown(wait=False, cancel_futures=True)
        print("stopping", flush=True)
        sys.exit(128 + number)

    executor = gristmill.Executor(1)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    held = executor.submit(calls.enter, sys.argv[1])
    held.add_done_callback(lambda done: print("completed", done.exception(), flush=True))
    rest = [executor.submit(calls.append, sys.argv[2], "ran") for _ in range(500)]
    print("submitted", flush=True)
    {waiting}
"""


@pytest.mark.parametrize("number", WARNINGS)
@pytest.mark.parametrize("waiting", ["held.result()", "signal.pause()", "gristmill.wait_any(rest)"])
def test_a_handler_can_let_what_runs_end_and_start_nothing_more(
    script: Script, gate: Gate, tmp_path: Path, number: signal.Signals, waiting: str
) -> None:
    note = tmp_path / "note"
    client = script.start(STOPS_ON_A_SIGNAL.format(waiting=waiting), gate.path, str(note))
    gate.wait_entered()
    assert client.stdout is not None
    assert client.stdout.readline() == "submitted\n"
    below = descent(client.pid)
    client.send_signal(number)
    assert client.stdout.readline() == "stopping\n"
    gate.open()
    printed, errors = client.communicate()
    assert (client.returncode, printed, errors) == (128 + number, "completed None\n", "")
    assert not note.exists(), "what had not started did not"
    wait_until_gone(below)


@pytest.mark.parametrize("number", WARNINGS)
def test_without_a_handler_the_program_and_its_tasks_die_at_once(
    script: Script, gate: Gate, tmp_path: Path, number: signal.Signals
) -> None:
    note = tmp_path / "note"
    client = script.start(
        """
        import sys
        import calls, gristmill
        executor = gristmill.Executor(1)
        executor.submit(calls.enter, sys.argv[1])
        for _ in range(500):
            executor.submit(calls.append, sys.argv[2], "ran")
        executor.shutdown()
        """,
        gate.path,
        str(note),
    )
    gate.wait_entered()
    below = descent(client.pid)
    client.send_signal(number)
    client.communicate()
    assert client.returncode == -number
    wait_until_gone(below)
    assert not note.exists()


@pytest.mark.parametrize(
    ("ending", "code"), [("pass", 0), ("sys.exit(3)", 3), ("raise ValueError('over')", 1)]
)
def test_every_way_out_of_the_main_program_completes_what_is_pending(
    script: Script, gate: Gate, tmp_path: Path, ending: str, code: int
) -> None:
    note = tmp_path / "note"
    client = script.start(
        f"""
        import sys
        import calls, gristmill
        executor = gristmill.Executor(1)
        executor.submit(calls.enter, sys.argv[1])
        for number in range(200):
            executor.submit(calls.append, sys.argv[2], str(number))
        print("over", flush=True)
        {ending}
        """,
        gate.path,
        str(note),
    )
    assert client.stdout is not None
    assert client.stdout.readline() == "over\n"
    assert not note.exists()
    gate.wait_entered()
    gate.open()
    _, errors = client.communicate()
    assert client.returncode == code
    assert ("ValueError: over" in errors) == (code == 1)
    assert note.read_text().split() == [str(number) for number in range(200)]


def test_os_exit_drops_what_is_pending_and_leaves_no_process(
    script: Script, gate: Gate, tmp_path: Path
) -> None:
    note = tmp_path / "note"
    client = script.start(
        """
        import os, sys
        import calls, gristmill
        executor = gristmill.Executor(1)
        executor.submit(calls.enter, sys.argv[1])
        executor.submit(calls.append, sys.argv[2], "ran")
        sys.stdin.read(1)
        os._exit(5)
        """,
        gate.path,
        str(note),
    )
    gate.wait_entered()
    below = descent(client.pid)
    client.communicate("x")
    assert client.returncode == 5
    wait_until_gone(below)
    assert not note.exists()


#: Programs that wait for a task that does not end: each prints "waiting" once Ctrl-C reaches that wait.
WAITS_FOR_THE_END = {
    "with": """
        with executor:
            held = executor.submit(calls.enter, sys.argv[1])
            rest = [executor.submit(calls.nothing) for _ in range(500)]
            print("waiting", flush=True)
            held.result()
    """,
    "the interpreter": """
        held = executor.submit(calls.enter, sys.argv[1])
        print("waiting", flush=True)
        held.result()
    """,
    "shutdown": """
        held = executor.submit(calls.enter, sys.argv[1])
        try:
            print("waiting", flush=True)
            held.result()
        finally:
            executor.shutdown()
    """,
    "a map": """
        with executor:
            print("waiting", flush=True)
            for _ in executor.map(calls.enter, [sys.argv[1]] * 500):
                pass
    """,
    "an executor that is gone": """
        held = executor.submit(calls.enter, sys.argv[1])
        del executor
        print("waiting", flush=True)
        held.result()
    """,
}


@pytest.mark.parametrize("waiting", WAITS_FOR_THE_END)
@pytest.mark.parametrize("nodes", ["", "nodes=gristmill.on.local(1)"])
def test_ctrl_c_twice_ends_a_program_that_waits_for_its_tasks(
    script: Script, gate: Gate, waiting: str, nodes: str
) -> None:
    begin = f"""
import atexit, sys
import calls, gristmill

class Told(gristmill.Executor):
    def _shut_down(self, *arguments):
        print("ending", flush=True)
        super()._shut_down(*arguments)

executor = Told({nodes})
atexit.register(print, "ending", flush=True)
"""
    client = script.start(begin + textwrap.dedent(WAITS_FOR_THE_END[waiting]), gate.path)
    assert client.stdout is not None
    assert client.stdout.readline() == "waiting\n"
    gate.wait_entered()
    below = descent(client.pid)
    client.send_signal(signal.SIGINT)
    assert client.stdout.readline() == "ending\n"
    client.send_signal(signal.SIGINT)
    _, errors = client.communicate()
    assert "KeyboardInterrupt" in errors
    wait_until_gone(below)


def test_ctrl_c_leaves_another_executor_its_tasks(
    script: Script, gate: Gate, tmp_path: Path
) -> None:
    """Only the executor that the program waits for cancels its tasks."""
    note = tmp_path / "note"
    client = script.start(
        """
        import sys
        import calls, gristmill
        one, other = gristmill.Executor(1), gristmill.Executor(1)
        one.submit(calls.enter, sys.argv[1])
        try:
            print("waiting", flush=True)
            one.shutdown()
        except KeyboardInterrupt:
            other.submit(calls.append, sys.argv[2], "ran")
        """,
        gate.path,
        str(note),
    )
    gate.wait_entered()
    assert client.stdout is not None
    assert client.stdout.readline() == "waiting\n"
    below = descent(client.pid)
    client.send_signal(signal.SIGINT)
    _, errors = client.communicate()
    assert (client.returncode, errors) == (0, "")
    assert note.read_text() == "ran\n"
    wait_until_gone(below)


#: A program with an object that the interpreter frees when no module can be loaded any more.
ASKS_AT_THE_VERY_END = """
    import builtins, concurrent.futures, os, sys
    import calls, gristmill

    class Holder:
        def __del__(self):
            assert sys.meta_path is None
            for future in self.futures:
                try:
                    print(future.result())
                except BaseException as error:
                    print(repr(error), flush=True)

    executor = gristmill.Executor(1)
    holder = Holder()
    good = executor.submit(calls.same, {1, 2})
    holder.futures = [executor.submit(int, "x"), executor.submit(os._exit, 1), good]
    concurrent.futures.wait(holder.futures)
    holder.itself, holder.executor = holder, (executor, gristmill)
    builtins.holder = holder
"""


def test_outcomes_are_told_when_nothing_can_be_loaded_any_more(script: Script) -> None:
    """The object reads outcomes that the interpreter has waited for, in the order of its calls."""
    first, second, third = script.run(ASKS_AT_THE_VERY_END).splitlines()
    assert first.startswith("ValueError(")
    assert second.startswith("WorkerLostError(")
    assert third == "{1, 2}"
