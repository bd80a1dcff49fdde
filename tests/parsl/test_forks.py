"""Forks in program code that the kernel runs in this process: a forked child ends where it leaves that code."""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from gristmill import ForkedProcessError
from gristmill.parsl import DataFlowKernel, File, bash_app, join_app, python_app
from gristmill.parsl.data_provider.staging import Staging
from gristmill.parsl.dataflow.dependency_resolvers import (
    DependencyResolver,
    shallow_traverse_to_unwrap,
)
from gristmill.parsl.dataflow.memoization import BasicMemoizer, Memoizer, id_for_memo

import forks

MakeKernel = Callable[..., DataFlowKernel]

#: The ends of the children that ``split`` has forked.
codes: list[int] = []


@pytest.fixture(autouse=True)
def no_codes() -> None:
    """Forgets the children of other tests."""
    codes.clear()


def split(end: str = "return", walltime: float | None = None) -> bool:
    """Forks a child that leaves the caller; returns true once the child has ended, and false in the child."""
    child = os.fork()
    if child:
        codes.append(forks.end_of(child))
        return True
    if end == "raise":
        raise ValueError("raised in the child")
    if end == "exit":
        sys.exit(7)
    return False


def assert_calls_run_once(kernel: DataFlowKernel, folder: Path) -> None:
    """Asserts that each later call runs once: a child that continued as a thread of the kernel would run some of them
    again.
    """
    path = str(folder / "later")
    note = python_app(forks.note, data_flow_kernel=kernel)
    for future in [note(path, number) for number in range(50)]:
        future.result()
    runs = Counter(Path(path).read_text().split())
    assert runs == Counter(str(number) for number in range(50))


@pytest.mark.parametrize(("end", "code"), [("return", 0), ("raise", 1), ("exit", 7)])
@pytest.mark.parametrize("options", [{}, {"walltime": 60}])
def test_a_child_of_an_app_in_a_thread(
    make_kernel: MakeKernel, tmp_path: Path, end: str, code: int, options: dict[str, Any]
) -> None:
    kernel = make_kernel("threads")
    app = python_app(split, data_flow_kernel=kernel)
    assert app(end, **options).result() is True
    assert codes == [code]
    assert_calls_run_once(kernel, tmp_path)


def test_a_child_of_an_app_in_a_thread_of_parsls_executor(
    make_kernel: MakeKernel, tmp_path: Path
) -> None:
    threads = pytest.importorskip("parsl.executors.threads")
    executor = threads.ThreadPoolExecutor(label="theirs", max_threads=1)
    kernel = make_kernel("threads", executors=[executor])
    assert python_app(split, data_flow_kernel=kernel)(end="exit").result() is True
    assert codes == [7]
    assert_calls_run_once(kernel, tmp_path)


@pytest.mark.parametrize("kind", ["threads", "engine"])
def test_a_child_of_the_body_of_a_join_app(
    make_kernel: MakeKernel, tmp_path: Path, kind: str
) -> None:
    kernel = make_kernel(kind)
    inner = python_app(forks.same, data_flow_kernel=kernel)

    @join_app(data_flow_kernel=kernel)
    def join() -> Any:
        split()
        # The child ends here: a kernel without threads cannot run this.
        return inner(5)

    assert join().result() == 5
    assert codes == [1]
    assert_calls_run_once(kernel, tmp_path)


def test_a_child_of_the_body_of_a_bash_app_runs_no_command(
    make_kernel: MakeKernel, tmp_path: Path
) -> None:
    kernel = make_kernel("threads")

    @bash_app(data_flow_kernel=kernel)
    def command(path: Path) -> str:
        split()
        return f"echo ran >> {path}"

    assert command(tmp_path / "ran").result() == 0
    assert codes == [0]
    assert (tmp_path / "ran").read_text() == "ran\n"
    assert_calls_run_once(kernel, tmp_path)


def test_a_child_of_the_body_of_a_bash_app_on_a_worker_runs_no_command(
    make_kernel: MakeKernel, tmp_path: Path
) -> None:
    kernel = make_kernel("engine")

    @bash_app(data_flow_kernel=kernel)
    def command(path: Path) -> str:
        child = os.fork()
        if child:
            forks.end_of(child)
        return f"echo ran >> {path}"

    assert command(tmp_path / "ran").result() == 0
    assert (tmp_path / "ran").read_text() == "ran\n"


@pytest.mark.parametrize("kind", ["threads", "engine"])
def test_a_child_of_a_retry_handler(make_kernel: MakeKernel, tmp_path: Path, kind: str) -> None:
    def handler(error: BaseException, record: Any) -> float:
        return 1 if split("raise") else 0

    kernel = make_kernel(kind, retries=1, retry_handler=handler)
    assert isinstance(python_app(_raise, data_flow_kernel=kernel)().exception(), ValueError)
    assert codes == [1, 1]
    assert_calls_run_once(kernel, tmp_path)


def _raise() -> None:
    raise ValueError


@pytest.mark.parametrize("of", ["app", "file", "item"])
def test_a_child_of_a_callback_runs_no_other_callback(
    make_kernel: MakeKernel, tmp_path: Path, of: str
) -> None:
    kernel = make_kernel("threads")
    leave, called, calls = threading.Event(), threading.Event(), tmp_path / "calls"

    def enter(outputs: Any = ()) -> list[int]:
        leave.wait()
        return [1]

    def last(_: object) -> None:
        forks.note(str(calls), "called")
        called.set()

    future = python_app(enter, data_flow_kernel=kernel)(outputs=[File(str(tmp_path / "out"))])
    watched = {"app": lambda: future, "file": lambda: future.outputs[0], "item": lambda: future[0]}
    chosen = watched[of]()
    chosen.add_done_callback(lambda _: split("exit"))
    chosen.add_done_callback(last)
    leave.set()
    assert called.wait(60)
    assert codes == [7]
    assert calls.read_text() == "called\n"
    assert_calls_run_once(kernel, tmp_path)


class Forking:
    """An object whose attribute forks, and whose memo key forks."""

    @property
    def attribute(self) -> int:
        split()
        return 3


@id_for_memo.register(Forking)
def _(forking: Forking, output_ref: bool = False) -> bytes:
    return b"forking" if split() else b"the child's"


def test_a_child_of_an_attribute_of_a_result(make_kernel: MakeKernel, tmp_path: Path) -> None:
    kernel = make_kernel("threads")
    assert python_app(Forking, data_flow_kernel=kernel)().attribute.result() == 3
    assert codes == [0]
    assert_calls_run_once(kernel, tmp_path)


@pytest.mark.parametrize("kind", ["threads", "engine"])
def test_a_child_of_what_identifies_an_argument(
    make_kernel: MakeKernel, tmp_path: Path, kind: str
) -> None:
    kernel = make_kernel(kind)

    @python_app(cache=True, data_flow_kernel=kernel)
    def app(path: str, forking: Any, ready: Any) -> None:
        forks.note(path, "ran")

    # The thread in which the first task ends takes the next step of this one.
    ready = python_app(forks.same, data_flow_kernel=kernel)(1)
    app(str(tmp_path / "ran"), Forking(), ready).result()
    assert codes == [0]
    assert (tmp_path / "ran").read_text() == "ran\n"
    assert_calls_run_once(kernel, tmp_path)


class ForkingMemoizer(Memoizer):
    """A memoizer that forks in each of its methods."""

    def start(self, *, run_dir: str, config_run_dir: str) -> None:
        """Forks."""
        split()

    def check_memo(self, task: Any) -> Future[Any] | None:
        """Forks."""
        split()
        return None

    def update_memo_result(self, task: Any, r: Any) -> None:
        """Forks."""
        split()

    def update_memo_exception(self, task: Any, e: BaseException) -> None:
        """Forks."""
        split("raise")

    def close(self) -> None:
        """Forks."""
        split()


@pytest.mark.parametrize("kind", ["threads", "engine"])
def test_children_of_a_memoizer(make_kernel: MakeKernel, tmp_path: Path, kind: str) -> None:
    kernel = make_kernel(kind, memoizer=ForkingMemoizer())
    assert python_app(forks.same, data_flow_kernel=kernel)(4).result() == 4
    assert codes == [0, 0, 0]
    assert python_app(_raise, data_flow_kernel=kernel)().exception() is not None
    assert codes == [0, 0, 0, 0, 1]
    assert_calls_run_once(kernel, tmp_path)
    codes.clear()
    kernel.cleanup()
    assert codes == [0]


class ForksWhenPickled:
    """A result of a thread that forks while it is pickled for the checkpoint."""

    def __reduce__(self) -> Any:
        split()
        return ForksWhenPickled, ()


def test_a_child_of_the_encoding_of_a_result_writes_no_checkpoint(
    make_kernel: MakeKernel, tmp_path: Path
) -> None:
    memoizer = BasicMemoizer(checkpoint_mode="task_exit")
    kernel = make_kernel("threads", memoizer=memoizer)
    python_app(ForksWhenPickled, cache=True, data_flow_kernel=kernel)().result()
    assert codes == [0]
    assert_calls_run_once(kernel, tmp_path)
    from gristmill._native import Journal

    entries = list(Journal.read(os.path.join(kernel.run_dir, "checkpoint", "tasks.pkl")))
    assert len(entries) == 1


def test_a_child_of_a_resolver(make_kernel: MakeKernel, tmp_path: Path) -> None:
    def gather(value: object) -> list[Any]:
        if value == "split":
            split()
        return [value] if isinstance(value, Future) else []

    def unwrap(value: object) -> object:
        if value == "split":
            split("raise")
        return shallow_traverse_to_unwrap(value)

    kernel = make_kernel("threads", dependency_resolver=DependencyResolver(gather, unwrap))
    same = python_app(_second, data_flow_kernel=kernel)
    assert same("split", same(0, 3)).result() == 3
    assert codes == [0, 1]
    assert_calls_run_once(kernel, tmp_path)


def _second(_: object, value: object) -> object:
    return value


class ForkingStaging(Staging):
    """A staging provider that forks in each of its methods."""

    def can_stage_in(self, file: File) -> bool:
        """Forks."""
        split()
        return True

    def can_stage_out(self, file: File) -> bool:
        """Forks."""
        split()
        return True

    def stage_in(self, *_: Any, **__: Any) -> None:
        """Forks."""
        split()

    def stage_out(self, *_: Any) -> None:
        """Forks."""
        split()

    def replace_task(self, *_: Any) -> None:
        """Forks."""
        split()

    def replace_task_stage_out(self, *_: Any) -> None:
        """Forks."""
        split()


def test_children_of_a_staging_provider_and_of_what_names_streams(
    make_kernel: MakeKernel, tmp_path: Path
) -> None:
    def name(record: Any, stream: str) -> str:
        split()
        return str(tmp_path / stream)

    kernel = make_kernel("threads", std_autopath=name)
    kernel.executors["here"].storage_access = [ForkingStaging()]

    def command(inputs: Any = (), outputs: Any = (), stdout: Any = None, parent: Any = None) -> str:
        return f"echo ran; touch {outputs[0].filepath}"

    app = bash_app(command, data_flow_kernel=kernel)
    files = {"inputs": [File(str(tmp_path / "in"))], "outputs": [File(str(tmp_path / "out"))]}
    assert app(**files, stdout=-1).result() == 0
    assert codes == [0] * 9
    assert (tmp_path / "stdout").read_text() == "ran\n"
    assert_calls_run_once(kernel, tmp_path)


@pytest.mark.parametrize("kind", ["threads", "engine"])
@pytest.mark.parametrize("what", ["call", "call again", "result", "exception", "cancel"])
def test_a_child_cannot_use_the_kernel(make_kernel: MakeKernel, kind: str, what: str) -> None:
    kernel = make_kernel(kind)
    app = python_app(forks.same, cache=True, data_flow_kernel=kernel)
    assert app(1).result() == 1
    leave = threading.Event()
    waiting = python_app(leave.wait, executors=["_parsl_internal"], data_flow_kernel=kernel)()
    uses: dict[str, Callable[[], object]] = {
        "call": lambda: app(2),
        "call again": lambda: app(1),
        "result": waiting.result,
        "exception": waiting.exception,
        "cancel": waiting.cancel,
    }
    child = os.fork()
    if not child:
        try:
            uses[what]()
        except ForkedProcessError:
            os._exit(3)
        finally:
            os._exit(4)
    assert forks.end_of(child) == 3
    leave.set()
    assert waiting.result() is True
