"""How a program ends while tasks run: by a signal of a batch system, by itself, with a handler or without."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from gristmill import Executor

from stage import Gate, Script, descent, lives

MakeExecutor = Callable[..., Executor]
WARNINGS = [signal.SIGTERM, signal.SIGHUP]


def wait_until_gone(processes: list[int]) -> None:
    while any(lives(process) for process in processes):
        os.sched_yield()


#: What docs/faults.md recommends: nothing new is started, what runs may end.
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
