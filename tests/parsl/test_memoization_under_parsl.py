"""Our memoizer in Parsl's own kernel."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gristmill.parsl.dataflow.memoization import BasicMemoizer, MemoKeyError

pytest.importorskip("parsl.version")
parsl = importlib.import_module("parsl")


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Yields a function that loads Parsl with our memoizer; a run ends when the next begins."""

    def begin(retries: int = 0, **options: Any) -> Any:
        end()
        threads = parsl.ThreadPoolExecutor(max_threads=4)
        config = parsl.Config(
            executors=[threads],
            memoizer=BasicMemoizer(**options),
            retries=retries,
            run_dir=str(tmp_path / "runinfo"),
            initialize_logging=False,
        )
        return parsl.load(config)

    def end() -> None:
        if parsl.DataFlowKernelLoader._dfk is not None:
            parsl.dfk().cleanup()
            parsl.clear()

    parsl.DataFlowKernelLoader = parsl.dataflow.dflow.DataFlowKernelLoader
    yield begin
    end()


def test_results_are_shared_within_a_run_and_found_by_the_next(load: Callable[..., Any]) -> None:
    calls, gate = [], threading.Event()

    @parsl.python_app(cache=True)
    def wait(value: Any) -> Any:
        calls.append(value)
        gate.wait()
        return value

    load(checkpoint_mode="task_exit")
    futures = [wait({1, 2}) for _ in range(5)]
    gate.set()
    assert [future.result() for future in futures] == [{1, 2}] * 5
    load(checkpoint_mode="task_exit")
    assert wait({2, 1}).result() == {1, 2}
    assert calls == [{1, 2}]


def test_a_retried_task_ends_and_unusable_arguments_are_named(load: Callable[..., Any]) -> None:
    calls: list[Any] = []

    @parsl.python_app(cache=True)
    def fail_twice(value: Any) -> int:
        calls.append(value)
        if len(calls) < 3:
            raise ValueError("not yet")
        return len(calls)

    load(retries=2)
    assert fail_twice(1).result() == 3
    with pytest.raises(MemoKeyError, match="argument 1"):
        fail_twice(threading.Lock()).result()
