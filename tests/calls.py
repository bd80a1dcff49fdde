"""Functions that the tests' tasks call, importable by workers.

Hundreds of workers import this module, so it imports no more than a worker has. The few functions that need more import
it themselves.
"""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn


def nothing() -> None:
    pass


def same(value: Any) -> Any:
    return value


def add(*numbers: int) -> int:
    return sum(numbers)


def both(*args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return args, kwargs


def total(values: Any) -> Any:
    if isinstance(values, dict):
        values = values.values()
    return sum(values)


def pid(_item: object = None) -> int:
    return os.getpid()


def enter(path: str, value: Any = None) -> Any:
    """Reports that it has begun, and waits until the gate lets it leave."""
    with open(path + ".entered", "r+b", buffering=0) as entered:
        entered.write(os.getpid().to_bytes(4, "little"))
    with open(path + ".leave", "r+b", buffering=0) as leave:
        leave.read(1)
    return value


def seen_gpus() -> str:
    """Returns the GPUs that a library would see."""
    return os.environ["CUDA_VISIBLE_DEVICES"]


def seen_threads() -> str:
    """Returns the number of threads that a library would use."""
    return os.environ["OMP_NUM_THREADS"]


def enter_and_see_gpus(path: str) -> str:
    enter(path)
    return seen_gpus()


def play(path: str, name: str) -> str:
    """Sends its name, and waits for the word that tells it how to end."""
    import socket

    with socket.socket(socket.AF_UNIX) as stage:
        stage.connect(path)
        stage.sendall(name.encode())
        if stage.recv(16) == b"error":
            raise ValueError(name)
    return name


def enter_if_path(path: str) -> str:
    """Behaves as ``enter`` does if there is a gate; returns at once otherwise."""
    if path:
        enter(path)
    return path


def enter_and_ignore(path: str) -> None:
    """Behaves as ``enter`` does, and ignores interrupts."""
    while True:
        try:
            enter(path)
            return
        except BaseException:
            print("interrupted and going on", file=sys.stderr)


def enter_quietly(path: str, note: str) -> None:
    """Behaves as ``enter`` does, and writes down the exception that ended it."""
    try:
        enter(path)
    except BaseException as error:
        with open(note, "w") as file:
            file.write(type(error).__name__)
        raise


def append(path: str, text: str) -> str:
    """Appends one whole line to a file, also while other processes append to it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.write(descriptor, f"{text}\n".encode())
    os.close(descriptor)
    return text


def fail(message: str = "no") -> NoReturn:
    raise ValueError(message)


def fail_first(path: str, times: int) -> int:
    """Fails ``times`` times, as counted by the lines of a file; then returns the number of runs."""
    append(path, "run")
    with open(path) as file:
        runs = len(file.readlines())
    if runs <= times:
        raise ValueError(f"run {runs}")
    return runs


def die_first(path: str, times: int) -> int:
    """Kills its worker ``times`` times; then returns the number of runs."""
    append(path, "run")
    with open(path) as file:
        runs = len(file.readlines())
    if runs <= times:
        os.kill(os.getpid(), 9)
    return runs


def die(signal: int) -> NoReturn:
    print("last words", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal)
    time.sleep(3600)  # the signal comes first
    raise AssertionError


def leave(code: int, _note: str = "") -> NoReturn:
    print("leaving now", file=sys.stderr, flush=True)
    os._exit(code)


def act(name: str, *arguments: Any) -> Any:
    """Calls another function of this module. To the engine all these calls have one function."""
    return globals()[name](*arguments)


def block(size: int) -> bytes:
    return bytes(size)


def nested_sum(count: int) -> int:
    """Submits tasks and waits for them."""
    from gristmill import current_executor

    executor = current_executor()
    return sum(future.result() for future in [executor.submit(same, 1) for _ in range(count)])


def seen_cores(*_: object) -> set[int]:
    """Returns the cores that a worker is bound to."""
    return os.sched_getaffinity(0)


def enter_and_see_cores(path: str) -> set[int]:
    enter(path)
    return seen_cores()


def gpus_and_pid() -> tuple[str, int]:
    return seen_gpus(), os.getpid()


def ask_for_what_i_have() -> None:
    from gristmill import current_executor

    current_executor().options(gpus=1).submit(seen_gpus).result()


def child_with_gpu() -> str:
    from gristmill import current_executor

    return current_executor().options(gpus=0.5, cores=1).submit(seen_gpus).result()


def is_loaded(module: str) -> bool:
    return module in sys.modules


def is_interpreter_of_its_own() -> bool:
    """Returns whether the worker was executed and not forked: its command line ends with its name, `slot.epoch`."""
    import re

    with open("/proc/self/cmdline", "rb") as words:
        return re.fullmatch(rb"\d+\.\d+", words.read().split(b"\0")[-2]) is not None


def process_name() -> str:
    with open("/proc/self/comm") as name:
        return name.read()


def note_process(path: str) -> None:
    append(path, str(os.getpid()))


def draw() -> int:
    import random

    return random.getrandbits(64)


def enter_and_draw(path: str) -> tuple[int, int, int]:
    import numpy

    enter(path)
    return os.getpid(), draw(), int(numpy.random.randint(2**62))


def raise_at_start() -> NoReturn:
    print("on standard error", file=sys.stderr, flush=True)
    raise ImportError("there is no module of that name")


def raise_once(path: str) -> None:
    """Fails in the first worker that calls it."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    raise ImportError("only the first one fails")


def exit_at_start() -> NoReturn:
    print("giving up", file=sys.stderr, flush=True)
    os._exit(7)


def crash() -> None:
    import ctypes

    print("before the crash", file=sys.stderr, flush=True)
    ctypes.string_at(0)


def enter_with_child(path: str) -> None:
    import subprocess

    child = subprocess.Popen(["sleep", "3600"], start_new_session=True)
    with open(path + ".child", "w") as file:
        file.write(str(child.pid))
    enter_and_ignore(path)


def witness(path: str, number: int, steps: int) -> int:
    """Writes that it begins, works a little, and writes that it ends."""
    append(path, f"begin {number}")
    total = 0
    for step in range(steps):
        total += step
    append(path, f"end {number}")
    return number


def log_and_give(path: str, value: Any) -> Any:
    append(path, f"{value}")
    return value


def log_and_fail(path: str) -> None:
    append(path, "ran")
    raise ValueError("no")


def first_of(values: Any) -> Any:
    return next(iter(values))
