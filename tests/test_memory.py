"""Exhausted memory: the error names the task, or the task gets a MemoryError that it can handle."""

from __future__ import annotations

import resource
from collections.abc import Callable

import pytest

from gristmill import Executor

import calls
from cgroups import group
from stage import Script

MakeExecutor = Callable[..., Executor]
RunHeld = Callable[[int, str], str]


def test_the_kernels_kill_because_memory_is_short_is_reported(script: Script) -> None:
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
    for part in ("WorkerLostError task ", "(hog)", "worker ", "process ", "signal 9 (SIGKILL)"):
        assert part in first
    assert "most likely by the kernel because memory was short" in first
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
    assert printed in ("WorkerLostError\n7\n", "MemoryError\n7\n")


def test_the_memory_of_the_group_is_what_tasks_may_ask_for(script: Script) -> None:
    with group("memory", 2 << 30) as procs:
        printed = script.run(
            """
            import os, sys
            open(sys.argv[1], "w").write(str(os.getpid()))
            import gristmill
            from gristmill._doctor import machine

            with gristmill.Executor(1) as executor:
                try:
                    executor.options(memory=3 << 30).submit(abs, -1)
                except gristmill.ResourceError as error:
                    print("refused:", error)
            print(*(found.text for found in machine.cores_and_memory() if found.what == "memory"))
            """,
            str(procs),
        )
    refused, told = printed.splitlines()
    assert refused.startswith("refused:")
    assert told.startswith("2.1 of ")
    assert told.endswith("a cgroup sets this limit")


def test_the_default_limit_of_tasks_follows_the_memory_of_the_group(run_held: RunHeld) -> None:
    printed = run_held(200 << 20, "fill(lambda number: executor.submit(abs, number))")
    assert str((200 << 20) // 4 // 250) in printed.replace(",", "")


def _limit_address_space(extra: int) -> None:
    with open("/proc/self/statm") as statm:
        used = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + extra, used + extra))


def _limit_data(extra: int) -> None:
    """Limits the data segment as the documentation of leases does, with the smallest margin."""
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
