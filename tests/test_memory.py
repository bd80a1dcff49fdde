"""Memory that runs out: the error says whose task it was, or the task has a MemoryError to handle."""

from __future__ import annotations

import resource
from collections.abc import Callable

import pytest

from gristmill import Executor

import calls
from cgroups import group
from stage import Script

MakeExecutor = Callable[..., Executor]


def test_the_kernels_kill_for_want_of_memory_is_told(script: Script) -> None:
    with group("memory", 300 << 20) as procs:
        printed = script.run(
            """
            import os, sys
            open(sys.argv[1], "w").write(str(os.getpid()))
            import gristmill

            def hog():
                print("about to eat", file=sys.stderr, flush=True)
                blocks = []
                while True:
                    blocks.append(b"x" * (8 << 20))

            with gristmill.Executor(2) as executor:
                lost = executor.submit(hog)
                behind = [executor.submit(int, "7") for _ in range(100)]
                print(type(lost.exception()).__name__, lost.exception())
                print(sum(future.result() for future in behind), executor.submit(int, "7").result())
            """,
            str(procs),
        )
    first, *_, last = printed.splitlines()
    for part in ("WorkerLost task ", "(hog)", "worker ", "process ", "signal 9 (SIGKILL)"):
        assert part in first
    assert "most likely by the kernel for want of memory" in first
    assert "about to eat" in printed
    assert last == "700 7"


def test_a_result_beyond_the_groups_memory_costs_its_worker_only(script: Script) -> None:
    with group("memory", 300 << 20) as procs:
        printed = script.run(
            """
            import os, sys
            open(sys.argv[1], "w").write(str(os.getpid()))
            import gristmill

            with gristmill.Executor(1) as executor:
                print(type(executor.submit(b"x".__mul__, 400 << 20).exception()).__name__)
                print(executor.submit(int, "7").result())
            """,
            str(procs),
        )
    assert printed in ("WorkerLost\n7\n", "MemoryError\n7\n")


def _limit_address_space(extra: int) -> None:
    with open("/proc/self/statm") as statm:
        used = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + extra, used + extra))


def _limit_data(extra: int) -> None:
    """As in the documentation of leases, but as small as it can be."""
    with open("/proc/self/status") as status:
        words = next(line for line in status if line.startswith("VmData:")).split()
    limit = int(words[1]) * 1024 + extra
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


@pytest.mark.parametrize("start", ["fork", "spawn"])
@pytest.mark.parametrize("limit", [_limit_address_space, _limit_data])
def test_a_task_beyond_the_limit_of_its_worker_has_a_memory_error(
    make_executor: MakeExecutor, limit: Callable[[int], None], start: str
) -> None:
    executor = make_executor(1, initializer=limit, initargs=(64 << 20,), start=start)
    worker = executor.submit(calls.pid).result()
    assert isinstance(executor.submit(bytearray, 256 << 20).exception(), MemoryError)
    caught = executor.submit(_catch_memory_error, 256 << 20)
    assert caught.result() == "caught"
    assert len(executor.submit(bytes, 8 << 20).result()) == 8 << 20
    assert executor.submit(calls.pid).result() == worker, "it lives on"


def _catch_memory_error(size: int) -> str:
    try:
        return str(len(bytearray(size)))
    except MemoryError:
        return "caught"
