"""A zygote with threads is not forked, because a fork would copy locks that no thread releases."""

from __future__ import annotations

import os
import signal
import textwrap
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gristmill import Executor, Lease, StartError, WorkerLostError, on

import calls
from stage import Gate, descent, lives, zygote_beside, zygotes

MakeExecutor = Callable[..., Executor]
pytestmark = pytest.mark.interpreter

STARTS_A_THREAD = """
    import threading
    threading.Thread(target=threading.Event().wait, daemon=True).start()
"""
ENDS_ITS_THREAD = """
    import threading
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
"""
STARTS_A_THREAD_WHEN_TOLD = """
    import os, signal, threading

    def start(number, frame):
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        with open(os.environ["GRISTMILL_TEST_GATE"] + ".entered", "r+b", buffering=0) as entered:
            entered.write(os.getpid().to_bytes(4, "little"))

    signal.signal(signal.SIGUSR1, start)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], str]:
    """Makes modules that can be imported."""
    monkeypatch.syspath_prepend(tmp_path)

    def make(name: str, text: str) -> str:
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))
        return name

    return make


@pytest.fixture(autouse=True)
def shown_warnings() -> Iterator[None]:
    """Lets zygotes, which take over the filters, show warnings and not raise them."""
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        yield


def test_threads_of_a_preloaded_module_make_workers_interpreters(
    make_executor: MakeExecutor,
    module: Callable[[str, str], str],
    capfd: pytest.CaptureFixture[str],
) -> None:
    names = [module("harmless_one", ""), module("with_a_thread", STARTS_A_THREAD)]
    names.append(module("harmless_two", ""))
    executor = make_executor(2, preload=names)
    assert executor.submit(calls.is_interpreter_of_its_own).result()
    assert all(executor.submit(calls.is_loaded, name).result() for name in names)
    assert list(executor.map(calls.same, range(1000))) == list(range(1000))
    assert isinstance(executor.submit(os._exit, 1).exception(), WorkerLostError)
    assert executor.submit(calls.is_interpreter_of_its_own).result(), "its replacement too"
    executor.shutdown()
    errors = capfd.readouterr().err
    assert errors.count("RuntimeWarning") == 1, "the zygote says it once, the workers do not"
    assert "importing with_a_thread, which preload names, started threads" in errors


def test_a_thread_that_has_ended_does_no_harm(
    make_executor: MakeExecutor,
    module: Callable[[str, str], str],
    capfd: pytest.CaptureFixture[str],
) -> None:
    executor = make_executor(1, preload=[module("with_a_short_thread", ENDS_ITS_THREAD)])
    assert not executor.submit(calls.is_interpreter_of_its_own).result()
    executor.shutdown()
    assert capfd.readouterr().err == ""


def test_a_thread_that_starts_later_is_noticed_before_the_next_fork(
    make_executor: MakeExecutor,
    module: Callable[[str, str], str],
    monkeypatch: pytest.MonkeyPatch,
    gate: Gate,
) -> None:
    monkeypatch.setenv("GRISTMILL_TEST_GATE", gate.path)
    before = set(zygotes())
    executor = make_executor(1, preload=[module("with_a_late_thread", STARTS_A_THREAD_WHEN_TOLD)])
    worker = executor.submit(calls.pid).result()
    assert not executor.submit(calls.is_interpreter_of_its_own).result()
    zygote = zygote_beside(before | {worker})
    os.kill(zygote, signal.SIGUSR1)
    assert gate.wait_entered() == zygote
    for _ in range(2):  # the first may be replaced by one that was forked before the thread began
        assert isinstance(executor.submit(os._exit, 1).exception(), WorkerLostError)
    assert executor.submit(calls.is_interpreter_of_its_own).result()
    while lives(zygote):
        time.sleep(0.001)
    assert executor.submit(calls.pid).result() in descent(os.getpid())


@pytest.mark.parametrize("code", ["0", "'bye'", "3"])
@pytest.mark.parametrize("start", ["fork", "spawn"])
@pytest.mark.parametrize("place", ["here", "lease", "node"])
def test_a_module_that_asks_the_interpreter_to_exit_is_named(
    module: Callable[[str, str], str], place: str, start: str, code: str
) -> None:
    preload = [module("that_exits", f"import sys\nsys.exit({code})")]
    kind = Lease if place == "lease" else Executor
    nodes = on.local(1, 1) if place == "node" else None
    with (
        kind(nodes=nodes, preload=preload, start=start) as executor,
        pytest.raises(StartError, match="importing module that_exits for preload"),
    ):
        # Either call may raise the error: workers may have failed before the task is submitted.
        executor.submit(calls.nothing).result()


def test_warnings_that_are_errors_refuse_threads(
    make_executor: MakeExecutor, module: Callable[[str, str], str]
) -> None:
    warnings.simplefilter("error")
    executor = make_executor(1, preload=[module("with_another_thread", STARTS_A_THREAD)])
    with pytest.raises(StartError, match="importing with_another_thread"):
        executor.submit(calls.nothing).result()
