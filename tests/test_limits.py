"""Limits that are reached give errors that say so."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable

import pytest

import gristmill
from gristmill import Executor

import calls
from stage import Gate, Script

MakeExecutor = Callable[..., Executor]


def test_too_many_outstanding_tasks_are_refused_by_choice(
    make_executor: MakeExecutor, gate: Gate
) -> None:
    executor = make_executor(1, task_limit=10, when_full="raise")
    futures = [executor.submit(calls.enter, gate.path, number) for number in range(10)]
    with pytest.raises(gristmill.LimitReached, match="10"):
        executor.submit(calls.nothing)
    with pytest.raises(gristmill.LimitReached):
        executor.options(retries=1).submit(calls.nothing)
    gate.open(10)
    assert [future.result() for future in futures] == list(range(10))
    assert executor.submit(calls.same, 1).result() == 1


def test_submit_waits_at_the_limit_if_not_told_otherwise(
    make_executor: MakeExecutor, gate: Gate
) -> None:
    executor = make_executor(1, task_limit=3)
    for _ in range(3):
        executor.submit(calls.enter, gate.path)
    gate.wait_entered()
    accepted = threading.Event()
    late: list[gristmill.Future[int]] = []

    def submit() -> None:
        late.append(executor.submit(calls.same, 7))
        accepted.set()

    thread = threading.Thread(target=submit)
    thread.start()
    assert not accepted.is_set()
    gate.close()
    thread.join()
    assert late[0].result() == 7


def test_a_small_limit_still_runs_everything(make_executor: MakeExecutor) -> None:
    executor = make_executor(2, task_limit=5)
    futures = [executor.submit(calls.same, number) for number in range(1000)]
    assert [future.result() for future in futures] == list(range(1000))
    assert list(executor.map(calls.same, range(1000))) == list(range(1000))


def test_map_beyond_the_limit(make_executor: MakeExecutor) -> None:
    executor = make_executor(2, task_limit=5, when_full="raise")
    assert list(executor.map(calls.same, range(100), buffersize=5)) == list(range(100))


def test_an_exhausted_descriptor_limit_says_so(script: Script) -> None:
    printed = script.run(
        """
        import os, resource
        import gristmill
        gristmill.Executor(1).submit(int).result()
        open_now = len(os.listdir("/proc/self/fd"))
        resource.setrlimit(resource.RLIMIT_NOFILE, (open_now, open_now))
        try:
            gristmill.Executor(1).submit(int).result()
        except (gristmill.StartError, OSError) as error:
            print(type(error).__name__, error)
        """
    )
    assert "Too many open files" in printed
    assert "StartError" in printed


def test_few_descriptors_are_enough(script: Script) -> None:
    printed = script.run(
        """
        import resource
        import gristmill
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        with gristmill.Executor(8) as executor:
            print(sum(executor.map(int, range(1000))))
        """
    )
    assert printed == "499500\n"


@pytest.mark.parametrize("start", ["fork", "spawn"])
@pytest.mark.parametrize("limit", [1, 3, 4, 5])
def test_an_exhausted_process_limit_says_so(script: Script, start: str, limit: int) -> None:
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        pytest.skip("the limit does not bind root, and there is no setpriv to become somebody else")
    printed = script.run(
        """
        import os, resource, sys
        if os.geteuid() == 0:
            # The kernel does not hold root to the limit: become nobody in particular, who may read root's interpreter.
            reads = "+dac_override,+dac_read_search"
            nobody = ["--reuid=54321", "--regid=54321", "--clear-groups", f"--inh-caps={reads}", f"--ambient-caps={reads}"]
            os.execvp("setpriv", ["setpriv", *nobody, sys.executable, *sys.argv])
        import gristmill
        gristmill.Executor(1).submit(int).result()  # everything is imported
        resource.setrlimit(resource.RLIMIT_NPROC, (int(sys.argv[2]),) * 2)
        try:
            print("no error", gristmill.Executor(1, start=sys.argv[1]).submit(int).result())
        except gristmill.StartError as error:
            print("StartError", error)
        sys.stdout.flush()
        os._exit(0)
        """,
        start,
        str(limit),
    )
    assert printed.startswith("StartError")
    assert "Resource temporarily unavailable" in printed


def test_memory_that_is_not_to_be_had_says_so(script: Script) -> None:
    printed = script.run(
        """
        import resource
        import gristmill
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (8 << 20), used + (8 << 20)))
        try:
            gristmill.Executor(8).submit(int).result()
        except (gristmill.StartError, MemoryError, OSError) as error:
            print(type(error).__name__, error)
        """
    )
    assert "StartError" in printed
    assert "memory" in printed
