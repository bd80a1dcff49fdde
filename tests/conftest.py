"""Executors, gates that hold tasks, and programs in processes of their own, for all tests."""

from __future__ import annotations

import gc
import os
import signal
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from gristmill import Executor, _native, on

from cgroups import group
from stage import Gate, Script
from written import Folder

# Random examples: ./dev test uses a few, always the same ones; ./dev thorough uses many.
settings.register_profile("quick", max_examples=100, derandomize=True)
settings.register_profile("deep", max_examples=1000)
settings.load_profile("quick")


def pytest_configure() -> None:
    """Sets the default action of signals that the tests were started with ignored, as by ``nohup``."""
    # Python itself ignores two.
    for number in signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}:
        if signal.getsignal(number) is signal.SIG_IGN:
            is_interrupt = number == signal.SIGINT
            signal.signal(number, signal.default_int_handler if is_interrupt else signal.SIG_DFL)


def pytest_collection_finish() -> None:
    """Freezes the objects that all tests share, so that garbage collections only scan what a test has made."""
    gc.collect()
    gc.freeze()


def nodes(max_workers: int | None) -> dict[str, object]:
    """Returns options that put an executor's workers behind a node agent where all tests run on nodes."""
    if "GRISTMILL_TEST_NODES" not in os.environ:
        return {}
    return {"nodes": on.local(1, max_workers or 2)}


@pytest.fixture
def interrupts() -> Iterator[None]:
    """Lets interrupts reach the test and its children, although a shell may have started the tests with interrupts
    ignored.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def small_arena(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives executors 8 MB of memory for payloads, and a disk."""
    if _native.spill_place()[0] is None:
        pytest.skip(f"no directory is on a disk: {_native.spill_place()[1]}")
    monkeypatch.setenv("GRISTMILL_ARENA_MEMORY", str(8 << 20))


@pytest.fixture
def make_executor() -> Iterator[Callable[..., Executor]]:
    """Yields a function that makes executors, which are shut down when the test ends."""
    made: list[Executor] = []

    def make(max_workers: int | None = 2, *arguments: object, **options: object) -> Executor:
        options = {**nodes(max_workers), **options}
        made.append(Executor(max_workers, *arguments, **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for executor in made:
        executor.shutdown(cancel_futures=True)


@pytest.fixture
def executor(make_executor: Callable[..., Executor]) -> Executor:
    """Returns an executor of two workers, for one test."""
    return make_executor()


@pytest.fixture(scope="module")
def shared() -> Iterator[Executor]:
    """Yields an executor of two workers that the tests of a module share; they must not damage it."""
    with Executor(2, **nodes(2)) as executor:  # type: ignore[arg-type]
        yield executor


@pytest.fixture
def gate(make_executor: Callable[..., Executor], tmp_path: Path) -> Iterator[Gate]:
    """Yields a gate that opens before the test's executors are shut down."""
    made = Gate(tmp_path)
    yield made
    made.close()


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """Returns a runner of programs in processes of their own."""
    return Script(tmp_path)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Folder]:
    """Yields a folder on the path, whose modules are unloaded when the test ends."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(tmp_path)
    made = Folder(tmp_path)
    yield made
    for name in made.written:
        sys.modules.pop(name, None)


@pytest.fixture
def run_held(script: Script, tmp_path: Path) -> Callable[[int, str], str]:
    """Returns a function that runs a program in a control group with a memory limit in bytes, and returns its output.

    The program's one worker is held. Its ``fill(call)`` repeats a call until the ``executor`` takes no more, returns
    the futures that exist then, and lets the worker continue.
    """

    def run(limit: int, text: str) -> str:
        with group("memory", limit) as procs:
            program = _HELD + textwrap.indent(textwrap.dedent(text), "    ")
            return script.run(program, str(procs), str(tmp_path / "held"))

    return run


_HELD = """
import os, sys
open(sys.argv[1], "w").write(str(os.getpid()))
import gristmill

def hold(path):
    open(path).read()

def fill(call):
    futures = []
    try:
        for number in range(300_000):
            futures.append(call(number))
    except gristmill.LimitReachedError as error:
        print(error)
    open(sys.argv[2], "w").close()
    return futures

os.mkfifo(sys.argv[2])
with gristmill.Executor(1, when_full="raise") as executor:
    executor.submit(hold, sys.argv[2])
"""
