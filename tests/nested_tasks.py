"""Tasks that submit tasks. They are not in a test's module, because a worker imports the module of what it calls, and a
test's module imports pytest.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import os
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gristmill
from gristmill import _nested
from interrupted import at_each_place

#: Seconds after which a wait fails, so that a hang fails the test and does not stop the test run.
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
    """Runs until the path exists or its folder is gone: a task without a waiter may begin only after its test."""
    folder = os.path.dirname(path)
    while not os.path.exists(path) and os.path.exists(folder):
        time.sleep(0.001)


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


def use_mixed_futures() -> dict[str, Any]:
    """Waits for tasks of this task, for those of an executor that it made, and for threads, in any order."""
    ex = gristmill.current_executor()
    found: dict[str, Any] = {}
    with (
        warnings.catch_warnings(action="ignore"),  # about an executor that a task makes
        concurrent.futures.ThreadPoolExecutor(2) as threads,
        gristmill.Executor(1) as executor,
    ):
        for name, other in (("threads", threads.submit), ("executor", executor.submit)):
            futures = [submit(double, index) for index in range(4) for submit in (ex.submit, other)]
            done, pending = concurrent.futures.wait(futures)
            found[name] = [len(done), len(pending)]
            mixed = [submit(double, index) for index in range(4) for submit in (other, ex.submit)]
            assert sum(1 for _ in concurrent.futures.as_completed(mixed)) == len(mixed)
        held: concurrent.futures.Future[int] = concurrent.futures.Future()
        futures = [held, executor.submit(double, 1), ex.submit(double, 2)]
        found["first"] = bool(concurrent.futures.wait(futures, None, "FIRST_COMPLETED").done)
        threads.submit(held.set_result, 1)
        found["any"] = gristmill.wait_any([held]).result()
    return found


def use_map() -> list[Any]:
    ex = gristmill.current_executor()
    return [
        list(ex.map(double, range(100))) == [2 * index for index in range(100)],
        sorted(ex.map(double, range(10), ordered=False)) == [2 * index for index in range(10)],
        list(ex.map(add, [1, 2], [3, 4])),
        next(ex.map(double, iter(int, 1), buffersize=3)),
        list(ex.options(retries=1).map(double, [1])),
    ]


def fail_for_odd(value: int) -> int:
    if value == 1:
        raise OwnError(value)
    if value == 3:
        raise StopIteration
    return value


def walk(results: Iterator[Any]) -> list[Any]:
    """Returns the values that a map yields, and the name of an exception that it raises."""
    found: list[Any] = []
    while True:
        try:
            found.append(next(results))
        except StopIteration:
            return found
        except Exception as error:
            found.append(type(error).__name__)


def unreadable(value: int) -> Any:
    raise OwnError(value)


def walk_maps() -> list[Any]:
    ex = gristmill.current_executor()
    items = [0, 1, 2, 3, 4]
    unsendable = [0, threading.Lock(), 2]
    closed = ex.map(double, items, buffersize=1)
    next(closed)
    closed.close()  # type: ignore[attr-defined]
    return [
        walk(ex.map(fail_for_odd, items)),
        walk(ex.map(fail_for_odd, items, buffersize=1, progress=True)),
        sorted(map(str, walk(ex.options(retries=0).map(fail_for_odd, items, ordered=False)))),
        walk(ex.map(double, unsendable)),
        walk(ex.map(double, map(unreadable, [1]))),
        walk(closed),
    ]


def map_wrongly(options: dict[str, Any]) -> str:
    try:
        gristmill.current_executor().map(double, [1], **options)
    except TypeError as error:
        return str(error)
    return ""


def wait_and_double(path: str, number: int) -> int:
    wait_for_file(path)
    return double(number)


async def _await_one(way: str, path: str, has_ended: bool) -> Any:
    ex = gristmill.current_executor()
    if has_ended:
        Path(path).touch()
    if way == "run_in_executor":
        return await asyncio.get_running_loop().run_in_executor(ex, wait_and_double, path, 21)
    future = ex.submit(wait_and_double, path, 21)
    if has_ended:
        concurrent.futures.wait([future])
    return await (asyncio.wrap_future(future) if way == "wrap_future" else future)


def await_one(way: str, path: str, has_ended: bool) -> Any:
    try:
        return asyncio.run(_await_one(way, path, has_ended))
    except RuntimeError as error:
        return str(error)
    finally:
        Path(path).touch()


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
    except gristmill.TaskTimeoutError:
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


def allocated() -> int:
    """Returns the bytes that the C library's allocator has given this process; -1 where the library has no count."""
    import ctypes

    class Use(ctypes.Structure):
        _fields_ = [
            *((name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks")),
            *((name, ctypes.c_size_t) for name in ("hblkhd", "usmblks", "fsmblks")),
            *((name, ctypes.c_size_t) for name in ("uordblks", "fordblks", "keepcost")),
        ]

    tell = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if tell is None:
        return -1
    tell.restype = Use
    use = tell()
    return int(use.uordblks + use.hblkhd)


def freed_with_futures(count: int, size: int, fetches: bool) -> int:
    """Returns how many bytes are freed while a task drops the futures of its tasks one by one."""
    ex = gristmill.current_executor()
    futures = [ex.submit(bytes, size) for _ in range(count)]
    concurrent.futures.wait(futures)
    before = allocated()
    for place, future in enumerate(futures):
        if fetches:
            assert len(future.result()) == size
        futures[place] = None  # type: ignore[call-overload]
    del future
    return -1 if before < 0 else before - allocated()


def callback_past_a_handler() -> bool:
    """Adds a callback to a task's future; a signal handler waits for the future at each point of the addition."""
    futures: list[Any] = []
    told: list[Any] = []

    def submit() -> Any:
        futures.append(gristmill.current_executor().submit(int))
        return futures[-1]

    def watch(future: Any) -> None:
        future.add_done_callback(told.append)

    count = at_each_place(_nested, submit, watch, lambda future: future.result())
    concurrent.futures.wait(futures)
    return count > 0 and told == futures


def waits_past_a_handler() -> bool:
    """Waits for a task; a signal handler waits for it as well at each point of the wait."""
    return bool(
        at_each_place(
            _nested,
            lambda: gristmill.current_executor().submit(int),
            lambda future: concurrent.futures.wait([future]),
            lambda future: future.result(),
        )
    )
