"""Full disks, and descriptors and processes that run out while tasks run: a clear error or none, and no hang."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from gristmill import Executor

from stage import Script

MakeExecutor = Callable[..., Executor]
STARTS = ["fork", "spawn"]
#: A test that mounts file systems that only its own program sees.
mounts = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("unshare") is None,
    reason="only root can mount for one program alone, with unshare and mount",
)

#: The beginning of a program that fills every file system for temporary files, for this program only.
FULL = """
    import errno, os, subprocess, sys
    if os.environ.get("TMPDIR") != sys.argv[1]:
        os.environ["TMPDIR"] = sys.argv[1]
        os.execvp("unshare", ["unshare", "--mount", sys.executable, *sys.argv])
    for folder in (sys.argv[1], "/dev/shm", "/var/tmp"):
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], check=True)
        with open(folder + "/fill", "wb", buffering=0) as fill:
            try:
                while True:
                    fill.write(bytes(4096))
            except OSError as error:
                assert error.errno == errno.ENOSPC
    import gristmill
"""


@mounts
@pytest.mark.parametrize("start", STARTS)
def test_full_disks_do_not_matter_to_the_engine(
    script: Script, tmp_path: object, start: str
) -> None:
    printed = script.run(
        FULL
        + """
    def write(folder):
        with open(folder + "/more", "wb") as file:
            file.write(bytes(1 << 20))

    with gristmill.Executor(2, start=sys.argv[2]) as executor:
        print(sum(executor.map(int, range(1000))))
        print(len(executor.submit(bytes, 50_000_000).result()))
        print(executor.submit(len, bytes(50_000_000)).result())
        error = executor.submit(write, sys.argv[1]).exception()
        print(type(error).__name__, error.errno == errno.ENOSPC, error.strerror)
        executor.submit(os._exit, 1).exception()
        print(executor.submit(int, "7").result())
    """,
        str(tmp_path),
        start,
    )
    assert printed.splitlines() == [
        "499500",
        "50000000",
        "50000000",
        "OSError True No space left on device",
        "7",
    ]


#: The beginning of a program with 64 MB of `/dev/shm`, as in containers, and no folder for temporary files that can be written.
IN_CONTAINER = """
    import os, subprocess, sys
    if "IN_CONTAINER" not in os.environ:
        os.environ["IN_CONTAINER"] = "yes"
        os.execvp("unshare", ["unshare", "--mount", sys.executable, *sys.argv])
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", "/dev/shm"], check=True)
    for folder in ("/tmp", "/var/tmp"):
        subprocess.run(["mount", "--bind", folder, folder], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
    try:
        open("/tmp/refused", "w")
    except OSError as error:
        print(error.strerror)
    import numpy as np
    import gristmill
"""


@mounts
@pytest.mark.parametrize("start", STARTS)
def test_little_shared_memory_and_folders_that_cannot_be_written_do_not_matter(
    script: Script, start: str
) -> None:
    printed = script.run(
        IN_CONTAINER
        + """
    with gristmill.Executor(2, start=sys.argv[1]) as executor:
        print(sum(executor.map(int, range(1000))))
        futures = [executor.submit(np.ones, 5_000_000) for _ in range(4)]
        print([float(future.result().sum()) for future in futures])
        print(float(executor.submit(np.sum, np.ones(20_000_000)).result()))
        arrays = (np.ones(125_000) for _ in range(400))
        print(sum(executor.map(np.sum, arrays)))
        executor.submit(os._exit, 1).exception()
        print(executor.submit(int, "7").result())
    """,
        start,
    )
    assert printed.splitlines() == [
        "Read-only file system",
        "499500",
        "[5000000.0, 5000000.0, 5000000.0, 5000000.0]",
        "20000000.0",
        "50000000.0",
        "7",
    ]


@mounts
def test_without_a_folder_to_write_to_more_than_memory_takes_is_one_clear_error(
    script: Script,
) -> None:
    printed = script.run(
        IN_CONTAINER
        + """
    with gristmill.Executor(1) as executor:
        try:
            executor.submit(np.sum, np.ones(2_000_000))
        except MemoryError as error:
            print(error)
        print(type(executor.submit(np.ones, 2_000_000).exception()).__name__)
        print(float(executor.submit(np.sum, np.ones(20_000)).result()))
    place, reasons = gristmill._native.spill_place()
    print(place, *(reason for _, reason in reasons), sep="; ")
    """,
        env={"GRISTMILL_ARENA_MEMORY": str(8 << 20)},
    )
    _, error, kind, total, place = printed.splitlines()
    assert "bytes do not fit into the arena: 0 bytes of its limit of 8388608 are in use" in error
    assert (kind, total) == ("MemoryError", "20000.0")
    assert place.startswith("None; ")
    assert "Read-only file system" in place, "the reason that `gristmill doctor` prints"


#: The beginning of a program that leaves no descriptor to itself, and none to the keeper that it restarts.
TAKE_ALL = """
    import os, resource, signal, sys
    import calls, gristmill
    from stage import keepers

    def take_all():
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        taken = []
        try:
            while True:
                taken.append(os.dup(0))
        except OSError:
            return taken
"""


def test_a_client_without_descriptors_still_heals_and_kills(script: Script) -> None:
    printed = script.run(
        TAKE_ALL
        + """
    with gristmill.Executor(1) as executor:
        executor.submit(int).result()
        taken = take_all()
        print(type(executor.submit(os._exit, 1).exception()).__name__)
        print(executor.submit(int, "7").result())
        hung = executor.options(timeout=0.05, grace=0.01).submit(signal.pause)
        print(type(hung.exception()).__name__)
        print(executor.submit(int, "8").result())
        for descriptor in taken:
            os.close(descriptor)
    """
    )
    assert printed.split() == ["WorkerLostError", "7", "TaskTimeoutError", "8"]


def test_a_client_without_descriptors_cannot_spawn_and_says_why(script: Script) -> None:
    printed = script.run(
        TAKE_ALL
        + """
    with gristmill.Executor(1, start="spawn") as executor:
        executor.submit(int).result()
        taken = take_all()
        print(type(executor.submit(os._exit, 1).exception()).__name__)
        print(executor.submit(int, "7").exception())
    """
    )
    assert printed.startswith("WorkerLostError\n")
    assert "worker 0 could not be started" in printed
    assert "Too many open files" in printed


def test_a_keeper_that_cannot_be_replaced_ends_the_executor_with_the_reason(script: Script) -> None:
    printed = script.run(
        TAKE_ALL
        + """
    executor = gristmill.Executor(1)
    executor.submit(int).result()
    (keeper,) = keepers()
    taken = take_all()
    os.kill(keeper, signal.SIGKILL)
    for _ in range(2):
        try:
            print("no error", executor.submit(signal.pause).result())
        except gristmill.GristmillError as error:
            print(error)
    executor.shutdown()
    """
    )
    assert len(printed.splitlines()) == 2
    for line in printed.splitlines():
        assert "keeper ended with signal 9" in line
        assert "Too many open files" in line


@pytest.mark.parametrize(
    ("start", "limit"), [("fork", 12), ("fork", 20), ("spawn", 18), ("spawn", 28)]
)
def test_few_descriptors_for_many_workers_end_in_results_or_in_the_reason(
    script: Script, start: str, limit: int
) -> None:
    printed = script.run(
        """
        import resource, sys
        import gristmill
        limit = int(sys.argv[2])
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
        try:
            with gristmill.Executor(16, start=sys.argv[1]) as executor:
                print(sum(executor.map(int, range(100))))
        except gristmill.StartError as error:
            print(error)
        """,
        start,
        str(limit),
    )
    assert printed == "4950\n" or "Too many open files" in printed


def test_the_keeper_uses_what_the_hard_limit_allows_and_workers_have_the_soft_one(
    script: Script,
) -> None:
    printed = script.run(
        """
        import resource
        import gristmill
        resource.setrlimit(resource.RLIMIT_NOFILE, (24, 256))
        with gristmill.Executor(16) as executor:
            print(sum(executor.map(int, range(100))))
            print(executor.submit(resource.getrlimit, resource.RLIMIT_NOFILE).result())
            print(executor.stats().start_failures)
        """
    )
    assert printed.splitlines() == ["4950", "(24, 256)", "0"]


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_many_workers_leave_descriptors_to_the_program(
    script: Script, start: str, tmp_path: Path
) -> None:
    together = tmp_path / "together"
    together.mkdir()
    printed = script.run(
        """
        import concurrent.futures, os, resource, signal, sys, time
        import gristmill
        resource.setrlimit(resource.RLIMIT_NOFILE, (32, 256))

        def stay(folder, number):
            try:
                open(f"{folder}/{number}", "x").close()
                signal.pause()
            finally:
                open(f"{folder}-interrupted-{number}", "x").close()

        with gristmill.Executor(24, start=sys.argv[1]) as executor:
            futures = [executor.submit(stay, sys.argv[2], number) for number in range(24)]
            while len(os.listdir(sys.argv[2])) < 24:
                time.sleep(0.001)
            print(len([open(os.devnull) for _ in range(4)]))
            print(all([future.cancel(running=True, grace=60) for future in futures]))
            concurrent.futures.wait(futures)
        """,
        start,
        str(together),
    )
    assert printed.splitlines() == ["4", "True"]
    assert len(list(tmp_path.glob("together-interrupted-*"))) == 24
