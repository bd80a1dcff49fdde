"""Tasks that submit tasks. Not in a test's module: workers import what they call, and pytest with it."""

from __future__ import annotations

import concurrent.futures
import functools
import os
import signal
import threading
from pathlib import Path
from typing import Any

import gristmill

#: A hang is a failure, not a hung test run.
HANG = 60


def nothing() -> None:
    pass


def double(value: int) -> int:
    return 2 * value


def add(*values: int) -> int:
    return sum(values)


def fib(number: int) -> int:
    if number < 2:
        return number
    submit = gristmill.current_executor().submit
    first, second = submit(fib, number - 1), submit(fib, number - 2)
    return first.result() + second.result()


def fan(width: int) -> int:
    ex = gristmill.current_executor()
    return sum(future.result() for future in [ex.submit(double, index) for index in range(width)])


def chain(depth: int) -> int:
    if depth == 0:
        return 0
    return 1 + gristmill.current_executor().submit(chain, depth - 1).result()


def noops(count: int) -> int:
    ex = gristmill.current_executor()
    futures = [ex.submit(nothing) for _ in range(count)]
    return sum(future.result() is None for future in futures)


class OwnError(Exception):
    pass


def raise_own() -> None:
    raise OwnError("from below")


def wait_for_failure() -> None:
    gristmill.current_executor().submit(raise_own).result()


def catch_failure() -> tuple[str, str]:
    future = gristmill.current_executor().submit(raise_own)
    error = future.exception()
    return type(error).__name__, str(error)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def wait_for_death() -> None:
    gristmill.current_executor().submit(die).result()


def wait_for_file(path: str) -> None:
    """Runs until the path exists, or its folder no more: what nobody waits for may first look when its test is over."""
    folder = os.path.dirname(path)
    while not os.path.exists(path) and os.path.exists(folder):
        os.sched_yield()


def wait_for_waiting_child(started: str, forever: str, ended: str) -> None:
    ex = gristmill.current_executor().options()
    try:
        ex.submit(wait_and_tell, started, forever).result()
    finally:
        Path(ended).touch()


def wait_and_tell(started: str, forever: str) -> None:
    Path(started).touch()
    wait_for_file(forever)


def call_with(ex: Any, value: int) -> int:
    result: int = ex.submit(double, value).result()
    return result


def pass_on() -> int:
    ex = gristmill.current_executor()
    result: int = ex.submit(call_with, ex, 3).result()
    return result


def by_value(factor: int) -> list[int]:
    ex = gristmill.current_executor()
    return [ex.submit(lambda value: factor * value, value).result() for value in range(5)]


def futures_as_arguments() -> list[int]:
    ex = gristmill.current_executor()
    two = ex.submit(double, 1)
    four = ex.submit(double, two)
    both = ex.submit(add, two, four)
    listed = ex.submit(sum, [two, four, both])
    partial = ex.submit(add, two, *[ex.submit(double, four) for _ in range(3)])
    return [future.result() for future in (four, both, listed, partial)]


def failed_argument() -> str:
    ex = gristmill.current_executor()
    error = ex.submit(double, ex.submit(raise_own)).exception()
    return f"{type(error).__name__} {type(error.__cause__).__name__}"


def forget(path: str, count: int) -> None:
    for index in range(count):
        gristmill.current_executor().submit(touch, path, index)


def touch(path: str, index: int) -> None:
    (Path(path) / str(index)).touch()


def use_futures() -> list[Any]:
    ex = gristmill.current_executor()
    futures = [ex.submit(double, index) for index in range(10)]
    done, pending = concurrent.futures.wait(futures)
    called: list[int] = []
    other = ex.submit(double, 50)
    other.add_done_callback(lambda future: called.append(future.result()))
    completed = sorted(future.result() for future in concurrent.futures.as_completed(futures))
    other.result()
    other.add_done_callback(lambda future: called.append(future.result()))
    any_one = gristmill.wait_any([ex.submit(double, 7)]).result()
    return [len(done), len(pending), completed[-1], called, any_one, futures[0].done()]


def use_map() -> list[Any]:
    ex = gristmill.current_executor()
    return [
        list(ex.map(double, range(100))) == [2 * index for index in range(100)],
        sorted(ex.map(double, range(10), ordered=False)) == [2 * index for index in range(10)],
        list(ex.map(add, [1, 2], [3, 4])),
        next(ex.map(double, iter(int, 1), buffersize=3)),
        list(ex.options(retries=1).map(double, [1])),
    ]


def poll_until_done() -> int:
    future = gristmill.current_executor().submit(double, 21)
    while not future.done():
        pass
    result: int = future.result()
    return result


def time_out(never: str) -> str:
    ex = gristmill.current_executor()
    future = ex.options(timeout=0.1, grace=HANG).submit(wait_for_file, never)
    try:
        future.result()
    except gristmill.TaskTimeout:
        return "timed out"
    return "not"


def cancel_one(path: str) -> tuple[bool, bool, bool]:
    future = gristmill.current_executor().submit(touch, path, 1)
    cancelled = future.cancel()
    future_cancelled = False
    try:
        future.result()
    except concurrent.futures.CancelledError:
        future_cancelled = True
    return cancelled, future_cancelled, future.cancelled()


def blocked_and_cancelled(path: str) -> list[bool]:
    ex = gristmill.current_executor()
    first = ex.submit(wait_for_file, path)
    second = ex.submit(add, 1, ex.submit(id, first))
    answer = [second.cancel()]
    Path(path).touch()
    first.result()
    return [*answer, second.cancelled()]


def tell(path: str) -> None:
    gristmill.current_executor().submit(nothing).result()
    Path(path).touch()


def in_a_thread() -> str:
    found: list[str] = []

    def ask() -> None:
        try:
            gristmill.current_executor()
        except RuntimeError as error:
            found.append(str(error))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    return found[0]


_kept: list[Any] = []


def keep(path: str) -> None:
    _kept.append(gristmill.current_executor().submit(wait_for_file, path))


def use_kept() -> list[str]:
    future = _kept.pop()
    errors = []
    for use in (future.result, future.exception, lambda: concurrent.futures.wait([future])):
        try:
            use()
        except RuntimeError as error:
            errors.append(str(error))
    return [*errors, str(future.done())]


def large() -> list[int]:
    ex = gristmill.current_executor()
    return [
        len(ex.submit(functools.partial(bytes.__add__, b"x" * size), b"y").result())
        for size in (1, 40_000)
    ]


def refused() -> str:
    ex = gristmill.current_executor()
    try:
        return str([ex.submit(nothing) for _ in range(3)][-1].result())
    except gristmill.ShutDownError:
        return "refused"


def stopped_then_refused(started: str, go: str) -> str:
    Path(started).touch()
    wait_for_file(go)
    return refused()
