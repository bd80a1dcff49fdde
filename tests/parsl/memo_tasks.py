"""Tasks as a memoizer sees them, and the calls that a kernel makes to it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from gristmill.parsl.dataflow.memoization import BasicMemoizer

_ids = itertools.count()


def make_task(function: Callable[..., Any], *args: Any, **kwargs: Any) -> dict[str, Any]:
    """Returns a task of an app with ``cache=True``."""
    return {
        "id": next(_ids),
        "func": function,
        "args": args,
        "kwargs": kwargs,
        "ignore_for_cache": [],
        "memoize": True,
        "app_fu": Future(),
        "hashsum": None,
        "from_memo": None,
    }


def ask(memoizer: BasicMemoizer, task: dict[str, Any]) -> Future[Any] | None:
    """Asks the memoizer for the task, as the kernel does before each attempt."""
    known = memoizer.check_memo(task)
    task["from_memo"] = known is not None
    return known


def succeed(memoizer: BasicMemoizer, task: dict[str, Any], result: Any) -> None:
    """Reports the result to the memoizer first and then to the future's waiters."""
    memoizer.update_memo_result(task, result)
    task["app_fu"].set_result(result)


def fail(memoizer: BasicMemoizer, task: dict[str, Any], error: BaseException) -> None:
    """Reports the error to the memoizer first and then to the future's waiters."""
    memoizer.update_memo_exception(task, error)
    task["app_fu"].set_exception(error)


def call(memoizer: BasicMemoizer, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Runs a task to its end, or takes its result from the memoizer."""
    task = make_task(function, *args, **kwargs)
    known = ask(memoizer, task)
    succeed(memoizer, task, function(*args, **kwargs) if known is None else known.result())
    return task["app_fu"].result()


def start(folder: Path, run: int = 0, **options: Any) -> BasicMemoizer:
    """Starts a memoizer in a run of this number."""
    memoizer = BasicMemoizer(**options)
    run_dir = folder / f"{run:03}"
    run_dir.mkdir(exist_ok=True)
    memoizer.start(run_dir=str(run_dir), config_run_dir=str(folder))
    return memoizer
