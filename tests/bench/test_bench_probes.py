"""The capabilities of executors are probed, also where a probing task hangs or ends the program."""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from gristmill import instruments
from gristmill_bench.errors import BenchError
from gristmill_bench.probes import probe
from gristmill_bench.probes.asking import answers_of, ask
from gristmill_bench.probes.child import PROBES
from gristmill_bench.probes.features import AGAIN, FIRST, FUTURES, GOES_ON, SEES
from gristmill_bench.probes.objects import FROM_PROGRAM, INTO_PROGRAM, INTO_TASKS
from gristmill_bench.probes.probe import DIES, HANGS, WORDS, YES, Hangs, Opened, Probe, yes

#: Real runs that take seconds: ./dev suite runs all of them.
pytestmark = pytest.mark.slow

CLOSURES = "takes closures as functions"
OWN_PROCESSES = "runs tasks in processes of their own"


def answers(executor: dict[str, Any], *rows: str) -> dict[str, str]:
    """Returns the answer, in words, for each of these rows of probes."""
    found = ask(executor, [PROBES[row] for row in rows])
    return {row: WORDS.get(answer, "a number") for row, answer in found.items()}


def test_ours_can_what_it_says() -> None:
    rows = (FIRST, OWN_PROCESSES, CLOSURES, FUTURES, INTO_PROGRAM, INTO_TASKS, FROM_PROGRAM, SEES)
    found = answers({"name": "gristmill", "workers": 2, "loss_retries": 1}, *rows)
    assert found.pop(FIRST) == "a number"
    changed = {row: found.pop(row) for row in (INTO_PROGRAM, INTO_TASKS, FROM_PROGRAM)}
    assert set(changed.values()) == {"no"}
    assert set(found.values()) == {"yes"}


def test_threads_share_objects_and_die_with_the_program() -> None:
    rows = (OWN_PROCESSES, CLOSURES, FUTURES, INTO_PROGRAM, INTO_TASKS, FROM_PROGRAM, SEES)
    found = answers({"name": "threads", "workers": 1}, *rows)
    assert found[OWN_PROCESSES] == found[FUTURES] == "no"
    assert {found[row] for row in rows[1:2] + rows[3:6]} == {"yes"}
    assert {found[row] for row in (SEES, GOES_ON, AGAIN)} == {"the program dies"}


def test_what_ends_a_process_is_the_answer_of_the_probe_that_was_under_way() -> None:
    first, second = yes("first", lambda _: True), Probe(("second", "third"), lambda _: {})
    noted = [{"asked": "first"}, {"asked": "first", "found": {"first": YES}}, {"asked": "second"}]
    died = answers_of(noted, [first, second], 137)
    assert died == {"first": YES, "second": DIES, "third": DIES}
    hung = answers_of(noted, [first, second], instruments.TIMED_OUT)
    assert hung == {"first": YES, "second": HANGS, "third": HANGS}


def test_a_task_without_an_end_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Hangs, match=r"within 0\.01 s"):
        probe.value(Future(), 0.01)
    monkeypatch.setattr(probe, "PATIENCE_S", 0.01)
    with pytest.raises(Hangs):
        probe.wait_until(lambda: False)


def test_a_task_that_stays_is_seen_to_run(tmp_path: Path) -> None:
    sign = tmp_path / "sign"
    probe.stay(str(sign), str(tmp_path / "no-gate"))
    assert not probe.runs(sign)


#: A program that each interpreter with the variable runs first: the interpreter of the probes interrupts the test and
#: stays alive.
STAYS = """
import os, sys, time
if "gristmill_bench.probes.child" in sys.orig_argv and "gristmill._descent" not in sys.orig_argv:
    open(os.environ["GRISTMILL_TEST_TOLD"], "w").close()
    time.sleep(3600)
"""


def test_probes_that_are_interrupted_leave_no_processes_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = tmp_path / "told"
    os.mkfifo(told)
    (tmp_path / "sitecustomize.py").write_text(STAYS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("GRISTMILL_TEST_TOLD", str(told))

    class Interrupted(Exception):
        """The exception that a signal handler raises."""

    def interrupt(_signal: int, _frame: object) -> None:
        raise Interrupted

    def interrupt_when_told() -> None:
        told.read_text()
        os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, interrupt)
    teller = threading.Thread(target=interrupt_when_told)
    teller.start()
    try:
        with pytest.raises(Interrupted):
            ask({"name": "inline", "workers": 1}, [PROBES[CLOSURES]])
    finally:
        signal.signal(signal.SIGUSR1, before)
    teller.join()
    mark = f"GRISTMILL_TEST_TOLD={told}".encode()
    assert not [one for one in Path("/proc").glob("[0-9]*/environ") if mark in bytes_of(one)]


def bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_what_is_not_installed_is_not_asked() -> None:
    absent = yes("needs more", lambda _: True, needs="no_such_distribution")
    assert ask({"name": "inline", "workers": 1}, [absent]) == {}


@pytest.mark.parametrize(
    ("executor", "message"),
    [
        ({"name": "absent"}, "there is no executor 'absent'"),
        ({"name": "threads", "workers": 0}, "executor.workers"),
    ],
)
def test_an_executor_that_there_is_not_is_refused(executor: dict[str, Any], message: str) -> None:
    with pytest.raises(BenchError, match=message):
        ask(executor, [PROBES[CLOSURES]])


def test_busy_workers_are_free_again(tmp_path: Path) -> None:
    from gristmill_bench.executors.here import Threads

    backend = Threads(workers=2).open()
    opened = Opened(backend, 2, tmp_path, 0.0)
    with opened.busy():
        waiting = backend.submit(probe.nothing, 1)
        assert not waiting.done()
    assert probe.value(waiting) == 1
    backend.shutdown()
