"""The ten categories of a thread's time, and the rules that assign a sample to one of them.

Eight are named in the text of "Towards Fine-grained Parallelism in Parallel and Distributed Python Libraries", section
3.1 (polling, receiving, sending, queues, the semaphore, serialization, operations of Parsl, Python's standard library).
Logging is the ninth: the paper's authors had to turn it off. The tenth is everything else: the purpose of the run.

A sample's stack is read from the innermost frame outwards, up to the first frame that has an owner: an engine, or the
program. The frames inside of it, of the standard library and of native code, only say what the owner was doing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple, get_args

Category = Literal[
    "poll",
    "receive",
    "send",
    "queue",
    "semaphore",
    "serialization",
    "logging",
    "engine",
    "standard library",
    "program",
]
#: All categories, in the order in which they are shown.
CATEGORIES: tuple[Category, ...] = get_args(Category)
#: The meaning of each category, for readers of a report.
MEANINGS: dict[Category, str] = {
    "poll": "waits for events: on sockets, on rings, for processes to end",
    "receive": "reads from sockets, pipes, files and rings",
    "send": "writes to them",
    "queue": "puts into queues inside a process, takes from them, waits for them",
    "semaphore": "waits for a lock, a condition or a semaphore, including the lock of the interpreter",
    "serialization": "converts objects to bytes, and bytes to objects",
    "logging": "writes logs",
    "engine": "other code of Gristmill, Parsl, Dask, Ray, joblib and the pools of the library",
    "standard library": "other code of Python itself, such as imports and time.sleep",
    "program": "the program, the functions of its tasks, and the libraries that these use",
}


class Frame(NamedTuple):
    """A frame of a sampled stack."""

    function: str
    file: str


#: The packages of task engines, at the paths of installed packages: a program may be in a folder of such a name.
_ENGINES = re.compile(
    r"/(?:site|dist)-packages/(gristmill|parsl|distributed|dask|ray|joblib|loky)/"
    r"|/python3\.\d+t?/(concurrent/futures|multiprocessing)/"
    r"|/(interchange|process_worker_pool)\.py$|/crates/|/gristmill_bench/|^"
    + re.escape(f"{Path(__file__).parents[1]}/")
)
#: The applications of the benchmark suite, which count as programs.
_APPLICATIONS = re.compile(r"/gristmill_bench/apps/")
_LIBRARY = re.compile(r"/python3\.\d+t?/(?!site-packages/|dist-packages/)|^<frozen ")
_NATIVE = re.compile(r"\.(so|rs|c|h|cc|cpp|pyx|S)\b|^\?$|^\[|/bin/python[\d.]*t?$")
#: The Python modules that transfer bytes for others.
_CARRIERS = re.compile(r"/zmq/|/multiprocessing/(connection|queues|synchronize|reduction)\.py$")

#: The rules that apply to any frame inside of the owner's, the outermost first. Matched with "file function".
_STRONG: tuple[tuple[Category, re.Pattern[str]], ...] = (
    ("logging", re.compile(r"/python3\.\d+t?/logging/")),
    ("queue", re.compile(r"/python3\.\d+t?/queue\.py | _queue_\w+$|_queuemodule\.c")),
    (
        "serialization",
        re.compile(
            r"/(pickle|copyreg|marshal)\.py |/(cloudpickle|dill|msgpack|msgspec)/|/json/\w+\.py "
            r"| _pickle_\w+$| _json_\w+$|/_pickle\.|/_json\.|/multiprocessing/reduction\.py "
            r"|/parsl/serialize/|/gristmill/_(un)?pickling\.py |/distributed/protocol/|/codec/"
        ),
    ),
)
#: The rules that apply to the innermost frame that they match.
_WEAK: tuple[tuple[Category, re.Pattern[str]], ...] = (
    (
        "semaphore",
        re.compile(
            r" (_{0,2}pthread_(cond_\w*wait|mutex_lock)|sem_(clock|timed)?wait|\w*PyThread_acquire\w*"
            r"|take_gil|_PySemaphore_\w+|_?PyMutex_\w*[Ll]ock\w*)$|/python3\.\d+t?/threading\.py .*"
            r"(wait|acquire|join|__enter__)|/multiprocessing/synchronize\.py |/sync/\w+/mutex|mutex\.rs "
            r"| SemLock\w*$"
        ),
    ),
    (
        "poll",
        re.compile(
            r" (__)?(p?poll|p?select|epoll_p?wait2?|wait4|waitpid|waitid|zmq_poll)$"
            r"| select_\w+$|/selectors\.py | Poller\.poll| Socket\.poll|connection\.py wait$"
        ),
    ),
    (
        "receive",
        re.compile(
            r" (__)?(p?read(v|64)?|recv(from|m?msg)?)$| (\w+\.)?_?recv\w*$| os_read\w*$|\.read(line|into)?$"
        ),
    ),
    (
        "send",
        re.compile(r" (__)?(p?write(v|64)?|send(to|m?msg)?)$| (\w+\.)?_?send\w*$| os_write\w*$"),
    ),
    ("queue", re.compile(r"/multiprocessing/queues\.py ")),
    ("standard library", re.compile(r" (time_sleep|clock_nanosleep)$")),
)
#: The places in which our own native code waits for tasks, results or messages, by any means.
_WAITS = re.compile(r"/crates/(worker/src/idle|client/src/(wait|nap)|sync/src/futex|keeper/)")
#: The functions in which native code takes the interpreter's lock again.
_ATTACHES = re.compile(r"SuspendAttach|PyEval_(Restore|Acquire)Thread|PyGILState_Ensure|take_gil")
_RINGS_BELL = re.compile(r"/crates/shm/src/(bell|ring/writer)")
_DRAINS = re.compile(r"/crates/(client/src/drain|shm/src/ring/consumer)")


def is_native(frame: Frame) -> bool:
    """Returns whether the frame is native code."""
    return _NATIVE.search(frame.file) is not None or frame.function.startswith("0x")


class Verdict(NamedTuple):
    """The category of a stack."""

    category: Category
    #: True if the stack only says whose code was running: that may have waited in native code that it called.
    is_open: bool


def categorize(stack: Sequence[Frame]) -> Verdict:
    """Returns the category of a sample. Frames are in order from the outermost to the innermost."""
    inner: list[Frame] = []
    owner: Category = "standard library"
    for frame in reversed(stack):
        found = _owner(frame)
        if found is not None:
            owner = found
            inner.append(frame)
            break
        inner.append(frame)
    texts = [f"{frame.file} {frame.function}" for frame in inner]
    for text in reversed(texts):
        for category, pattern in _STRONG:
            if pattern.search(text):
                return Verdict(category, False)
    if owner != "standard library" and (ours := _of_our_native(inner)) is not None:
        return Verdict(ours, False)
    for text in texts:
        for category, pattern in _WEAK:
            if pattern.search(text):
                return Verdict(category, False)
    if owner == "program" and any(_is_python_library(frame) for frame in inner[:-1]):
        return Verdict("standard library", True)
    return Verdict(owner, True)


def _owner(frame: Frame) -> Category | None:
    """Returns the owner of a frame, or ``None`` for code that serves others."""
    if is_native(frame) or _CARRIERS.search(frame.file):
        return None
    if _ENGINES.search(frame.file):
        return "program" if _APPLICATIONS.search(frame.file) else "engine"
    return None if _LIBRARY.search(frame.file) else "program"


def _of_our_native(inner: Sequence[Frame]) -> Category | None:
    """Returns what our own native code was doing, if debug lines are known; ``None`` if it was not running."""
    ours = [frame.file for frame in inner if "/crates/" in frame.file]
    if not ours:
        return None
    if any(_ATTACHES.search(frame.function) for frame in inner):
        return "semaphore"
    if any(map(_RINGS_BELL.search, ours)):
        return "send"
    if any("/client/src/client.rs" in file for file in ours) and _is_futex(inner):
        return "semaphore"
    if any(map(_WAITS.search, ours)):
        return "poll"
    return "receive" if any(map(_DRAINS.search, ours)) else "engine"


def _is_futex(inner: Sequence[Frame]) -> bool:
    return inner[0].function == "syscall" and any("futex" in frame.file for frame in inner)


def _is_python_library(frame: Frame) -> bool:
    return _LIBRARY.search(frame.file) is not None and not is_native(frame)
