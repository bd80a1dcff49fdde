"""Our engine with its defaults."""

import importlib
import importlib.util
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, cast

from benches.adapters.base import ExecutorEngine, share_paths
from benches.model import Unavailable


class GristmillEngine(ExecutorEngine):
    """`gristmill.Executor(max_workers=N)`, nothing tuned: the executor itself, of an older build too."""

    key = "gristmill"
    name = "gristmill"
    module = "gristmill"
    distribution = "gristmill"
    accepts_futures = True
    size_share = 1.0
    opening = (
        "import gristmill\n"
        "executor = gristmill.Executor(max_workers=2)\nexecutor.submit(noop, 1).result()"
    )

    def open(self) -> Executor:
        share_paths()
        executor = importlib.import_module("gristmill").Executor(max_workers=self.workers)
        return cast(Executor, executor)

    @classmethod
    def version(cls) -> str | None:
        """Returns version and build profile; a source tree without a build is not installed."""
        if importlib.util.find_spec(cls.module) is None:
            return None
        info = build_info()
        return f"{info.get('version', '?')} {info.get('profile', '?')}"


def build_info() -> dict[str, Any]:
    """Returns what our build says of itself; empty where there is none."""
    try:
        found = importlib.import_module("gristmill").build_info()
    except (ImportError, AttributeError):
        return {}
    return dict(found)


def wait_any_of(executor: Executor) -> Callable[..., Any]:
    """Returns `wait_any`, from the executor or the module."""
    found = getattr(executor, "wait_any", None)
    found = found or getattr(importlib.import_module("gristmill"), "wait_any", None)
    if found is None:
        raise Unavailable("no wait_any")
    return cast(Callable[..., Any], found)


def view_echo(executor: Executor, count: int) -> Callable[[], Any]:
    """Returns a round trip of an array of `count` float64 that is a view both ways."""
    make = getattr(importlib.import_module("gristmill"), "array", None)
    options = getattr(executor, "options", None)
    if make is None or options is None:
        raise Unavailable("no gristmill.array or Executor.options")
    work = importlib.import_module("benches.work")
    try:
        array = make((count,), dtype="float64")
        submit = options(views=True).submit
    except TypeError as error:
        raise Unavailable(f"no views: {error}") from error
    array[:] = 1.0
    return lambda: submit(work.echo, array).result()
