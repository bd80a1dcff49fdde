"""The tasks of a campaign. Each leaves a record when it begins and when it ends.

Workers import this module again and again, so it imports no more than a worker has.
"""

from __future__ import annotations

import os
import signal
import time

import gristmill

from chaos.witness import BEGIN, END, LOAD, note

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

#: Seconds that a task takes unless it is stopped: longer than a campaign waits for progress.
_LONG_S = 600


def tiny(path: str, number: int) -> int:
    note(path, BEGIN, number)
    note(path, END, number)
    return number


def work(path: str, number: int, microseconds: int) -> int:
    note(path, BEGIN, number)
    until = time.perf_counter() + microseconds / 1e6
    while time.perf_counter() < until:
        pass
    note(path, END, number)
    return number


def fail(path: str, number: int) -> NoReturn:
    note(path, BEGIN, number)
    note(path, END, number)
    raise ValueError(number)


def after(path: str, number: int, parent: int, value: Any) -> int:
    """Takes the result of another task."""
    note(path, BEGIN, number)
    if number_in(value) != parent:
        raise ArithmeticError(f"task {parent} gave {value!r:.80}")
    note(path, END, number)
    return number


def number_in(value: Any) -> int:
    """Returns the number of the task that gave a value."""
    if isinstance(value, (bytes, bytearray)):
        return int.from_bytes(value[:8], "little")
    if hasattr(value, "dtype"):
        return int(value[0]) // 2
    return int(value[0] if isinstance(value, list) else value)


def fork(path: str, number: int, way: str) -> int:
    """Forks a child that leaves the function in its own way."""
    note(path, BEGIN, number)
    child = os.fork()
    if child == 0:
        if way == "raise":
            os.close(2)
            raise ValueError(number)
        if way == "exec":
            os.execv("/bin/true", ["true"])
        if way == "exit":
            os._exit(0)
        return -number
    if way == "leave":
        os.sched_yield()
    else:
        os.waitpid(child, 0)
    note(path, END, number)
    return number


def spawn(path: str, number: int) -> int:
    note(path, BEGIN, number)
    os.waitpid(os.posix_spawn("/bin/true", ["true"], os.environ), 0)
    note(path, END, number)
    return number


def use_multiprocessing(path: str, number: int) -> int:
    import multiprocessing

    note(path, BEGIN, number)
    process = multiprocessing.get_context("fork").Process(target=int)
    process.start()
    process.join()
    note(path, END, number)
    return number


def nest(path: str, number: int, budget: int, children: list[Any]) -> list[Any]:
    """Submits children, which are given as number, kind, size and children; returns how each of them ended."""
    note(path, BEGIN, number)
    executor = gristmill.current_executor()
    submit: Any = executor.options(loss_retries=budget).submit if budget else executor.submit
    futures: list[Any] = []
    for child, kind, size, below in children:
        if kind == "nest":
            futures.append(submit(nest, path, child, budget, below))
        elif kind == "work":
            futures.append(submit(work, path, child, size))
        elif kind == "fork":
            futures.append(submit(fork, path, child, "return"))
        else:
            futures.append(submit(_CHILDREN[kind], path, child))
    endings: list[Any] = []
    for (child, *_), future in zip(children, futures, strict=True):
        error = future.exception()
        if error is not None:
            endings.append((type(error).__name__, str(error)[:2000]))
        elif number_in(future.result()) != child:
            endings.append(("wrong", repr(future.result())))
        else:
            endings.append(future.result())
    note(path, END, number)
    return [number, endings]


def item(path: str, number: int, is_deadly: bool) -> int:
    """Runs as one of the calls of a map."""
    note(path, BEGIN, number)
    if is_deadly:
        os._exit(1)
    note(path, END, number)
    return number


def in_context(path: str, number: int) -> int:
    note(path, BEGIN, number)
    if CONTEXT["word"] != "set up":
        raise ArithmeticError(f"the context has {CONTEXT['word']!r}")
    note(path, END, number)
    return number


def in_fork(path: str, number: int) -> int:
    note(path, BEGIN, number)
    if FORKED["word"] != "set up":
        raise ArithmeticError(f"the context has {FORKED['word']!r}")
    note(path, END, number)
    return number


def set_up() -> dict[str, str]:
    return {"word": "set up"}


CONTEXT = gristmill.Context(set_up)
FORKED = gristmill.Context(set_up, name="forked", calls=gristmill.ContextCalls(mode="fork"))


class Loads:
    """An object that takes time to load, or kills the process that loads it."""

    def __init__(self, path: str, number: int, microseconds: int, *, dies: bool) -> None:
        self.rest = (path, number, microseconds, dies)

    def __reduce__(self) -> Any:
        return _load, self.rest


def _load(path: str, number: int, microseconds: int, dies: bool) -> None:
    note(path, LOAD, number)
    time.sleep(microseconds / 1e6)
    if dies:
        os.kill(os.getpid(), signal.SIGKILL)


def by_value(path: str, number: int, microseconds: int, *, dies: bool) -> Callable[[], int]:
    """Returns a function that goes by value, with an object that workers load."""
    loads = Loads(path, number, microseconds, dies=dies)

    def call() -> int:
        note(path, BEGIN, number)
        assert loads is None
        note(path, END, number)
        return number

    return call


def take_large(path: str, number: int, value: bytes) -> int:
    """Takes a value of ``payload``."""
    note(path, BEGIN, number)
    if value != payload(number, len(value)):
        raise ArithmeticError("the bytes of the argument are wrong")
    note(path, END, number)
    return number


def give_large(path: str, number: int, size: int) -> bytes:
    note(path, BEGIN, number)
    note(path, END, number)
    return payload(number, size)


def pass_array(path: str, number: int, value: Any) -> Any:
    """Returns an array of twice the values."""
    note(path, BEGIN, number)
    twice = value * 2
    note(path, END, number)
    return twice


def payload(number: int, size: int) -> bytes:
    """Returns bytes that begin with the number and depend on it."""
    word = number.to_bytes(8, "little")
    return (word * (size // 8 + 1))[:size]


def sleep(path: str, number: int) -> int:
    """Sleeps until it is interrupted."""
    note(path, BEGIN, number)
    time.sleep(_LONG_S)
    note(path, END, number)
    return number


def sleep_deaf(path: str, number: int) -> int:
    """Sleeps until its process is killed."""
    note(path, BEGIN, number)
    while True:
        try:
            time.sleep(_LONG_S)
        except BaseException:
            continue


def abort(path: str, number: int) -> NoReturn:
    note(path, BEGIN, number)
    os.abort()


def leave(path: str, number: int) -> NoReturn:
    note(path, BEGIN, number)
    os._exit(number % 3)


def fault(path: str, number: int) -> NoReturn:
    note(path, BEGIN, number)
    os.kill(os.getpid(), signal.SIGSEGV)
    raise AssertionError("the signal did not end the process")


def die_once(path: str, number: int) -> int:
    """Kills its worker in its first attempt."""
    note(path, BEGIN, number)
    try:
        os.close(os.open(f"{path}.{number}", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        note(path, END, number)
        return number
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("the signal did not end the process")


_CHILDREN: dict[str, Callable[[str, int], Any]] = {
    "tiny": tiny,
    "raise": fail,
    "spawn": spawn,
    "die once": die_once,
}
