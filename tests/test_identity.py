"""The identity of a worker in ``multiprocessing`` and ``logging``, and the program's settings that a worker has."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from typing import Any

import pytest

import gristmill
from gristmill import Executor, on
from gristmill._context.declare import with_reuse

import identities
from stage import Script

MakeExecutor = Callable[..., Executor]


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_workers_are_told_apart_and_have_a_parent(make_executor: MakeExecutor, start: str) -> None:
    executor = make_executor(2, start=start)
    meet = multiprocessing.get_context("spawn").Manager()
    with meet as manager:
        barrier = manager.Barrier(2)
        futures = [executor.submit(identities.look, barrier) for _ in range(2)]
        looks = [future.result() for future in futures]
    assert len({look["name"] for look in looks}) == 2
    for look in looks:
        assert look["name"].startswith("GristmillWorker-")
        assert look["record"] == look["name"]
        assert (look["parent"], look["parent_name"]) == (os.getpid(), "MainProcess")
        assert look["parent_lives"]
        assert (look["daemon"], look["lives"]) == (False, True)
        assert look["pid"] == look["ident"]


@pytest.mark.parametrize("loads_first", [False, True])
def test_log_records_have_the_workers_name_without_multiprocessing(
    script: Script, loads_first: bool
) -> None:
    said = script.run(
        f"""
        import sys
        {"import multiprocessing" if loads_first else ""}
        import gristmill, identities
        with gristmill.Executor(1) as executor:
            print(executor.submit(identities.record_name).result())
        """
    )
    name, has_loaded = said.split()
    assert name.startswith("GristmillWorker-0.")
    assert has_loaded == "False"


@pytest.mark.parametrize("start", ["fork", "spawn"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_proxies_of_a_manager_work_whenever_multiprocessing_is_loaded(
    script: Script, start: str, when: str
) -> None:
    """Workers have the program's key even if it is drawn after they were started."""
    load = "import multiprocessing"
    said = script.run(
        f"""
        import gristmill, identities
        {load if when == "before" else ""}
        if __name__ == "__main__":
            with gristmill.Executor(1, start={start!r}) as executor:
                executor.submit(identities.nothing).result()
                {load}
                with multiprocessing.get_context("spawn").Manager() as manager:
                    queue, table = manager.Queue(), manager.dict()
                    executor.submit(identities.use, queue, table).result()
                    print(queue.get(), dict(table))
        """
    )
    assert said == "7 {'key': 8}\n"


@pytest.mark.parametrize(
    ("options", "reuse"),
    [
        ({}, "memory"),
        ({"calls": gristmill.ContextCalls(mode="fork")}, "memory"),
        ({"workers": gristmill.ContextWorkers(fork=False)}, "memory"),
        ({}, "disk"),
    ],
    ids=["direct", "fork", "alone", "disk"],
)
def test_proxies_of_a_manager_work_in_contexts(
    make_executor: MakeExecutor, options: dict[str, Any], reuse: str
) -> None:
    executor = make_executor(1)
    context = with_reuse(gristmill.Context(dict, name="with a manager", **options), reuse)
    with multiprocessing.get_context("spawn").Manager() as manager:
        queue, table = manager.Queue(), manager.dict()
        within = executor.options(context=context)
        within.submit(identities.use, queue, table).result()
        assert queue.get() == 7
        name, parent = within.submit(identities.name_and_parent).result()
        assert (name != "MainProcess", parent is not None) == (True, True)


def test_proxies_of_a_manager_work_on_nodes_and_names_tell_nodes_apart() -> None:
    with (
        multiprocessing.get_context("spawn").Manager() as manager,
        Executor(nodes=on.local(2, 1)) as executor,
    ):
        queue, table, barrier = manager.Queue(), manager.dict(), manager.Barrier(2)
        executor.submit(identities.use, queue, table).result()
        assert queue.get() == 7
        futures = [executor.submit(identities.look, barrier) for _ in range(2)]
        names = {future.result()["name"] for future in futures}
        assert len(names) == 2


def test_an_executor_of_a_task_hands_the_key_on(make_executor: MakeExecutor) -> None:
    executor = make_executor(1)
    with multiprocessing.get_context("spawn").Manager() as manager:
        queue, table = manager.Queue(), manager.dict()
        executor.submit(identities.use_below, queue, table).result()
        assert queue.get() == 7


def test_workers_have_the_settings_of_the_program(script: Script) -> None:
    said = script.run(
        """
        import decimal, faulthandler, gc, socket, sys, threading
        import gristmill, endings
        sys.setrecursionlimit(20_000)
        sys.set_int_max_str_digits(10_000)
        sys.setswitchinterval(0.25)
        threading.stack_size(1 << 20)
        gc.set_threshold(5000, 20, 30)
        gc.disable()
        sys.dont_write_bytecode = True
        sys.tracebacklimit = 7
        decimal.getcontext().prec = 5
        decimal.getcontext().traps[decimal.Inexact] = True
        socket.setdefaulttimeout(12.5)
        faulthandler.enable()
        here = endings.settings()
        for start in ("fork", "spawn"):
            with gristmill.Executor(1, start=start) as executor:
                there = executor.submit(endings.settings).result()
            wrong = {name: (here[name], value) for name, value in there.items() if here[name] != value}
            assert not wrong, wrong
        def depth(n):
            return n and 1 + depth(n - 1)
        with gristmill.Executor(1) as executor:
            print(executor.submit(depth, 5000).result())
        """
    )
    assert said == "5000\n"


def test_unchanged_settings_are_those_of_an_interpreter(
    make_executor: MakeExecutor,
) -> None:
    import sys

    executor = make_executor(1)
    assert executor.submit(sys.getrecursionlimit).result() == sys.getrecursionlimit()


def test_a_program_whose_working_directory_is_gone(script: Script) -> None:
    said = script.run(
        """
        import os, tempfile
        import gristmill, identities
        folder = tempfile.mkdtemp()
        os.chdir(folder)
        os.rmdir(folder)
        for start in ("fork", "spawn"):
            with gristmill.Executor(1, start=start) as executor:
                print(executor.submit(len, "abc").result())
        """
    )
    assert said == "3\n3\n"


def test_an_executor_made_or_used_as_the_interpreter_ends_says_so(script: Script) -> None:
    said = script.run(
        """
        import gristmill
        unused = gristmill.Executor(1)
        class Late:
            def __init__(self, unused):
                self.unused, self.make = unused, gristmill.Executor
            def __del__(self):
                for use in (lambda: self.make(1), lambda: self.unused.submit(len, "abc")):
                    try:
                        use()
                    except RuntimeError as error:
                        print(error)
        late = Late(unused)
        del unused
        """
    )
    lines = said.splitlines()
    assert len(lines) == 2
    assert "the interpreter is ending" in lines[0]


def test_all_workers_have_one_key_where_two_threads_begin_at_once(script: Script) -> None:
    program = script.start(
        """
        import os
        from gristmill import _identity

        draw, keys = os.urandom, []

        def draw_late(size):
            os.urandom = draw
            keys.append(_identity.key_of_program())
            return draw(size)

        os.urandom = draw_late
        keys.append(_identity.key_of_program())
        from multiprocessing import current_process

        print(len({*keys, bytes(current_process().authkey)}))
        """
    )
    assert program.communicate()[0] == "1\n"
