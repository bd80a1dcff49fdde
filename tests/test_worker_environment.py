"""The environment of a worker, and the executor's effects on its own process."""

from __future__ import annotations

import errno
import locale
import logging
import os
import random
import signal
import sys
import threading
import time
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gristmill
from gristmill import Executor, _worker_environment

import calls
from stage import Gate, Script, descent, lives

MakeExecutor = Callable[..., Executor]
STARTS = ["fork", "spawn"]


def test_the_umask_is_known_without_a_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)

    before = os.umask(0o027)
    try:
        monkeypatch.setattr("gristmill._worker_environment.open", refuse, raising=False)
        assert _worker_environment._umask() == 0o027
        assert os.umask(0o027) == 0o027, "it is as before"
    finally:
        os.umask(before)


@pytest.mark.interpreter
@pytest.mark.parametrize("start", STARTS)
def test_folder_environment_umask_and_path(
    make_executor: MakeExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GRISTMILL_TEST_WORD", "wörd")
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.syspath_prepend(tmp_path / "somewhere")
    monkeypatch.setattr(sys, "path", [*sys.path, "relative"])
    before = os.umask(0o027)
    try:
        executor = make_executor(1, start=start)
        assert executor.submit(os.getcwd).result() == str(tmp_path)
        assert executor.submit(os.getenv, "GRISTMILL_TEST_WORD").result() == "wörd"
        assert executor.submit(os.getenv, "HOME").result() is None
        path = executor.submit(lambda: sys.path).result()
        assert path[0] == str(tmp_path / "somewhere")
        assert path[-1] == str(tmp_path / "relative")
        executor.submit(calls.append, str(tmp_path / "made"), "text").result()
        assert (tmp_path / "made").stat().st_mode & 0o777 == 0o640
    finally:
        os.umask(before)


@pytest.mark.parametrize("start", STARTS)
def test_the_world_is_that_of_the_first_task(
    make_executor: MakeExecutor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, start: str
) -> None:
    executor = make_executor(1, start=start)
    monkeypatch.setenv("GRISTMILL_TEST_WORD", "set after the executor was made")
    monkeypatch.chdir(tmp_path)
    assert executor.submit(os.getenv, "GRISTMILL_TEST_WORD").result() is not None
    assert executor.submit(os.getcwd).result() == str(tmp_path)


def test_the_environment_shows_no_thread_variables_of_ours(
    make_executor: MakeExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    executor = make_executor(1)
    assert executor.submit(os.getenv, "OMP_NUM_THREADS").result() == "3"


@pytest.mark.parametrize("start", STARTS)
def test_warning_filters(make_executor: MakeExecutor, start: str) -> None:
    def work() -> None:
        warnings.warn("from a task", FutureWarning, stacklevel=1)

    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        executor = make_executor(1, start=start)
        assert isinstance(executor.submit(work).exception(), FutureWarning)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        executor = make_executor(1, start=start)
        assert executor.submit(work).exception() is None


def test_workers_start_without_the_library_of_a_warning_filter(
    make_executor: MakeExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A node that lacks the package looks like this: only this process has the class.
    husks = type("Husks", (UserWarning,), {"__module__": "chaff"})
    chaff = types.ModuleType("chaff")
    chaff.__dict__["Husks"] = husks
    monkeypatch.setitem(sys.modules, "chaff", chaff)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=husks)
        assert make_executor(1).submit(abs, -1).result() == 1


@pytest.mark.parametrize("start", STARTS)
def test_the_locale(make_executor: MakeExecutor, start: str) -> None:
    before = locale.setlocale(locale.LC_ALL)
    name = "C.UTF-8"
    try:
        locale.setlocale(locale.LC_ALL, name)
        executor = make_executor(1, start=start)
        assert executor.submit(locale.setlocale, locale.LC_ALL).result() == locale.setlocale(
            locale.LC_ALL
        )
    finally:
        locale.setlocale(locale.LC_ALL, before)


@pytest.mark.parametrize("start", STARTS)
def test_logging_is_unconfigured(make_executor: MakeExecutor, start: str) -> None:
    handler = logging.NullHandler()
    logging.getLogger().addHandler(handler)
    try:
        executor = make_executor(1, start=start)
        found = executor.submit(
            lambda: (len(logging.getLogger().handlers), logging.getLogger().level)
        ).result()
        assert found == (0, logging.WARNING)
    finally:
        logging.getLogger().removeHandler(handler)


@pytest.mark.interpreter
@pytest.mark.parametrize(
    ("start", "preload"), [("fork", ["random", "numpy"]), ("fork", []), ("spawn", [])]
)
def test_random_seeds_differ(
    make_executor: MakeExecutor, gate: Gate, start: str, preload: list[str]
) -> None:
    pytest.importorskip("numpy")
    random.seed(1)
    executor = make_executor(3, start=start, preload=preload)
    futures = [executor.submit(calls.enter_and_draw, gate.path) for _ in range(3)]
    for _ in futures:
        gate.wait_entered()
    gate.open(3)
    found = [future.result() for future in futures]
    assert all(len({one[place] for one in found}) == 3 for place in range(3))


@pytest.mark.parametrize("start", STARTS)
def test_the_arguments_of_the_program(
    make_executor: MakeExecutor, monkeypatch: pytest.MonkeyPatch, start: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["program", "--option", "7"])
    executor = make_executor(1, start=start)
    assert executor.submit(lambda: sys.argv).result() == ["program", "--option", "7"]


def test_shutdown_waits_for_callbacks(make_executor: MakeExecutor) -> None:
    executor = make_executor(1)
    seen: list[int] = []
    for number in range(1000):
        executor.submit(calls.same, number).add_done_callback(
            lambda done: seen.append(done.result())
        )
    executor.shutdown()
    assert sorted(seen) == list(range(1000))


def test_a_callback_may_shut_its_executor_down(make_executor: MakeExecutor, gate: Gate) -> None:
    executor = make_executor(1)
    is_over = threading.Event()

    def callback(_: object) -> None:
        executor.shutdown()
        is_over.set()

    executor.submit(calls.enter, gate.path).add_done_callback(callback)
    gate.open()
    assert is_over.wait()


@pytest.mark.interpreter
@pytest.mark.parametrize("start", STARTS)
def test_flags_of_the_interpreter(script: Script, start: str) -> None:
    printed = script.run(
        f"""
        import subprocess, sys
        if len(sys.argv) < 2:
            sys.exit(subprocess.call([sys.executable, "-W", "error", "-X", "utf8", "-O", __file__, "again"]))
        import gristmill
        with gristmill.Executor(1, start="{start}") as executor:
            print(executor.submit(lambda: (sys.flags.optimize, sys.flags.utf8_mode)).result())
        """
    )
    assert printed == "(1, 1)\n"


@pytest.mark.parametrize("start", STARTS)
def test_workers_have_their_share_of_threads(make_executor: MakeExecutor, start: str) -> None:
    pytest.importorskip("numpy")
    pytest.importorskip("threadpoolctl")

    def threads() -> list[int]:
        import numpy  # noqa: F401
        import threadpoolctl

        return [one["num_threads"] for one in threadpoolctl.threadpool_info()]

    share = max(1, len(os.sched_getaffinity(0)) // 2)
    found = make_executor(2, start=start).submit(threads).result()
    assert found
    assert set(found) == {share}
    assert set(make_executor(2, start=start, preload=["numpy"]).submit(threads).result()) == {share}
    adjusted = make_executor(2, start=start, threads_per_worker=2, preload=["numpy"])
    assert set(adjusted.submit(threads).result()) == {2}
    unloaded = make_executor(2, start=start, threads_per_worker=2)
    assert set(unloaded.submit(threads).result()) == {2}


@pytest.mark.parametrize("start", STARTS)
def test_workers_learn_on_which_core_they_run(make_executor: MakeExecutor, start: str) -> None:
    def cores() -> list[tuple[int, int]]:
        import ctypes

        library = ctypes.CDLL(None)
        found = []
        for core in sorted(os.sched_getaffinity(0)):
            os.sched_setaffinity(0, {core})
            found.append((core, library.sched_getcpu()))
        return found

    assert all(
        core == found for core, found in make_executor(1, start=start).submit(cores).result()
    )


def test_the_client_keeps_its_own_threads(make_executor: MakeExecutor) -> None:
    threadpoolctl = pytest.importorskip("threadpoolctl")
    pytest.importorskip("numpy")
    before = [one["num_threads"] for one in threadpoolctl.threadpool_info()]
    make_executor(2).submit(calls.nothing).result()
    assert [one["num_threads"] for one in threadpoolctl.threadpool_info()] == before


def test_the_number_of_workers_is_that_of_the_usable_cores(script: Script) -> None:
    printed = script.run(
        """
        import os, gristmill
        os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
        executor = gristmill.Executor()
        print(executor._max_workers)
        """
    )
    assert printed == "1\n"


def test_workers_have_default_signals_and_no_descriptors_of_others(
    make_executor: MakeExecutor, tmp_path: Path
) -> None:
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    try:
        with open(tmp_path / "secret", "w") as secret:
            os.set_inheritable(secret.fileno(), True)
            executor = make_executor(1)

            def look() -> tuple[list[str], list[bool]]:
                links = []
                for entry in os.listdir("/proc/self/fd"):
                    try:
                        links.append(os.readlink(f"/proc/self/fd/{entry}"))
                    except OSError:
                        continue
                asked = (
                    signal.SIGTERM,
                    signal.SIGHUP,
                    signal.SIGUSR1,
                    signal.SIGTSTP,
                    signal.SIGCHLD,
                )
                return links, [signal.getsignal(one) is signal.SIG_DFL for one in asked]

            links, are_default = executor.submit(look).result()
        assert not [one for one in links if "secret" in one]
        assert are_default == [True] * 5
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.interpreter
def test_a_task_may_start_processes_and_threads(shared: Executor) -> None:
    def work() -> tuple[str, int]:
        import multiprocessing
        import subprocess

        found: list[int] = []
        thread = threading.Thread(target=lambda: found.append(1))
        thread.start()
        thread.join()
        context = multiprocessing.get_context("fork")
        child = context.Process(target=found.append, args=(2,))
        child.start()
        child.join()
        return subprocess.check_output(["echo", "out"], text=True), len(found)

    assert shared.submit(work).result() == ("out\n", 1)


def test_standard_input_is_empty(shared: Executor) -> None:
    assert shared.submit(lambda: sys.stdin.read()).result() == ""


def test_several_executors_in_one_process(make_executor: MakeExecutor) -> None:
    executors = [make_executor(1, initializer=os.putenv, initargs=("X", str(n))) for n in range(4)]
    futures = [executor.submit(calls.pid) for executor in executors]
    assert len({future.result() for future in futures}) == 4
    executors[0].shutdown()
    assert executors[1].submit(calls.same, 1).result() == 1
    many = [
        executor.submit(calls.same, number) for number in range(500) for executor in executors[1:]
    ]
    assert sum(future.result() for future in many) == 3 * 499 * 250


def test_executors_come_and_go_without_a_trace(script: Script) -> None:
    """The program has a process of its own, because threads of earlier executors end at any time in this one."""
    printed = script.run(
        """
        import gc, os, threading, time
        import calls
        from gristmill import Executor
        from stage import keepers

        def count(folder):
            return len(os.listdir(f"/proc/self/{folder}"))

        def use(times):
            for _ in range(times):
                with Executor(1) as executor:
                    assert executor.submit(calls.same, 1).result() == 1
            gc.collect()
            # The engine's own threads hold its descriptors, and end soon after the shutdown.
            while count("task") > alone:
                time.sleep(0.001)
            return threading.active_count(), keepers(), count("fd")

        alone = count("task")
        *others, descriptors = use(1)
        *others_later, descriptors_later = use(6)
        assert others_later == others
        assert descriptors_later <= descriptors
        print("no trace")
        """
    )
    assert printed == "no trace\n"


@pytest.mark.interpreter
@pytest.mark.parametrize("keep", [["keep"], []])
def test_the_interpreters_end_completes_what_is_pending(
    script: Script, tmp_path: Path, keep: list[str]
) -> None:
    note = tmp_path / "note"
    printed = script.run(
        """
        import sys
        import calls, gristmill

        def main():
            executor = gristmill.Executor(2)
            first = executor.submit(calls.append, sys.argv[1], "0")
            for number in range(1, 500):
                executor.submit(calls.append, sys.argv[1], str(number))
            chain = first
            for _ in range(100):
                chain = executor.submit(calls.same, chain)
            executor.submit(lambda _: calls.append(sys.argv[1], "end of the chain"), chain)
            if len(sys.argv) > 2:
                globals()["kept"] = executor, chain

        main()
        print("main is over")
        """,
        str(note),
        *keep,
    )
    assert printed == "main is over\n"
    assert len(note.read_text().splitlines()) == 501


def test_the_end_completes_the_work_of_forgotten_executors(script: Script, tmp_path: Path) -> None:
    note = tmp_path / "note"
    script.run(
        """
        import sys
        import calls, gristmill
        executor = gristmill.Executor(2)
        for number in range(500):
            executor.submit(calls.append, sys.argv[1], str(number))
        del executor
        """,
        str(note),
    )
    assert len(note.read_text().splitlines()) == 500


def test_the_end_runs_callbacks(script: Script) -> None:
    printed = script.run(
        """
        import os
        import gristmill
        executor = gristmill.Executor(1)
        # Two threads may say it at the same time: a print would be two writes.
        say = lambda future: os.write(1, b"%d\\n" % future.result())
        for number in range(50):
            executor.submit(int, number).add_done_callback(say)
        """
    )
    assert sorted(map(int, printed.split())) == list(range(50))


@pytest.mark.interpreter
def test_an_exception_of_the_main_program_ends_it(script: Script, tmp_path: Path) -> None:
    with script.start(
        """
        import gristmill
        executor = gristmill.Executor(1)
        executor.submit(int, "1").result()
        raise SystemExit(3)
        """
    ) as process:
        _, errors = process.communicate()
    assert (process.returncode, errors) == (3, "")


@pytest.mark.interpreter
def test_signals_of_the_client_have_their_handlers(script: Script, gate: Gate) -> None:
    client = script.start(
        """
        import signal, sys
        import calls, gristmill
        executor = gristmill.Executor(1)
        future = executor.submit(calls.enter, sys.argv[1])

        def on_signal(number, frame):
            print("handled", number, flush=True)
            raise SystemExit(0)

        signal.signal(signal.SIGTERM, on_signal)
        print("ready", flush=True)
        try:
            future.result()
        finally:
            future.cancel(running=True)
        """,
        gate.path,
    )
    gate.wait_entered()
    assert client.stdout is not None
    assert client.stdout.readline() == "ready\n"
    below = descent(client.pid)
    client.send_signal(signal.SIGTERM)
    printed, errors = client.communicate()
    assert printed == "handled 15\n", errors
    assert client.returncode == 0
    while any(lives(process) for process in below):
        time.sleep(0.001)


def test_an_executor_in_a_thread(shared: Executor) -> None:
    found: list[Any] = []

    def work() -> None:
        with Executor(1) as executor:
            found.append(executor.submit(calls.same, 1).result())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [1]
    assert gristmill.wait_any([shared.submit(calls.same, 2)]).result() == 2
