"""Reached limits cause errors that name the limit."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable

import pytest

import gristmill
from gristmill import Executor

import calls
from stage import Gate, Script

pytestmark = pytest.mark.long

MakeExecutor = Callable[..., Executor]


def test_too_many_outstanding_tasks_are_refused_by_choice(
    make_executor: MakeExecutor, gate: Gate
) -> None:
    executor = make_executor(1, task_limit=10, when_full="raise")
    futures = [executor.submit(calls.enter, gate.path, number) for number in range(10)]
    with pytest.raises(gristmill.LimitReachedError, match="10"):
        executor.submit(calls.nothing)
    with pytest.raises(gristmill.LimitReachedError):
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
        pytest.skip("the limit does not bind root, and there is no setpriv to become another user")
    printed = script.run(
        """
        import os, resource, sys
        if os.geteuid() == 0:
            # The kernel does not hold root to the limit: become a user without a name, who may read root's interpreter.
            reads = "+dac_override,+dac_read_search"
            nameless = ["--reuid=54321", "--regid=54321", "--clear-groups", f"--inh-caps={reads}", f"--ambient-caps={reads}"]
            os.execvp("setpriv", ["setpriv", *nameless, sys.executable, *sys.argv])
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
        make = gristmill.Executor  # loaded
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (8 << 20), used + (8 << 20)))
        try:
            make(8).submit(int).result()
        except (gristmill.StartError, MemoryError, OSError) as error:
            print(type(error).__name__, error)
        """
    )
    assert "StartError" in printed
    assert "memory" in printed


LIMITED = """
    import os, resource, signal, sys
    resource.setrlimit(getattr(resource, sys.argv[1]), (int(sys.argv[2]),) * 2)
    import numpy as np
    from gristmill import Executor, current_executor

    def waiting(depth):
        if depth == 0:
            return 1
        return current_executor().submit(waiting, depth - 1).result() + 1

    with Executor(2, start=sys.argv[3]) as executor:
        results = [executor.submit(np.full, 6_000_000, float(number)) for number in range(4)]
        print([float(result.result()[-1]) for result in results])
        print(float(executor.submit(np.sum, np.ones(6_000_000)).result()))
        print(executor.submit(waiting, 30).result(), flush=True)
        if len(sys.argv) > 4:
            os.kill(os.getpid(), signal.SIGKILL)
"""


def _segments() -> set[str]:
    """Returns the System V segments of this machine that belong to this user."""
    with open("/proc/sysvipc/shm") as segments:
        return {
            line.split()[1] for line in list(segments)[1:] if line.split()[7] == str(os.getuid())
        }


@pytest.mark.parametrize("start", ["fork", "spawn"])
@pytest.mark.parametrize(
    ("limit", "size"),
    [("RLIMIT_AS", 4 << 30), ("RLIMIT_FSIZE", 4 << 30), ("RLIMIT_FSIZE", 1 << 20)],
)
def test_the_limits_of_a_login_node_leave_room_for_workers(
    script: Script, limit: str, size: int, start: str
) -> None:
    environment = {"OPENBLAS_NUM_THREADS": "1"}  # each of its threads reserves addresses
    before = _segments()
    printed = script.run(LIMITED, limit, str(size), start, env=environment)
    assert printed == "[0.0, 1.0, 2.0, 3.0]\n6000000.0\n31\n"
    assert _segments() <= before


def test_a_killed_program_under_a_limit_of_file_sizes_leaves_no_segment(script: Script) -> None:
    before = _segments()
    with script.start(LIMITED, "RLIMIT_FSIZE", str(1 << 20), "fork", "die") as program:
        printed, _ = program.communicate()
    assert printed.endswith("31\n")
    assert program.returncode == -signal.SIGKILL
    while not _segments() <= before:  # its processes end soon after it
        time.sleep(0.001)
