"""The profile of a run: a row for each kind of thread of each kind of process, with its time in ten categories."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from gristmill._profile import kernel, stacks
from gristmill._profile.categories import CATEGORIES, Category, Frame
from gristmill._profile.kernel import WatchedThread
from gristmill._profile.launch import Seen
from gristmill._profile.settling import settle
from gristmill._profile.stacks import SampledThread

#: The least number of samples of a thread that is shown: shares of fewer would be chance.
LOOKS_MIN = 3
_MAIN = "MainThread"
_NUMBER = re.compile(r"\d+")
#: The roles of processes by their frames, in order of precedence: file, function, role.
_BY_FRAMES = (
    ("/gristmill/_zygote.py", "_work", "worker"),
    ("/gristmill/_zygote.py", "main", "zygote"),
    ("/gristmill/_nodes/agent.py", "run", "node agent"),
    ("/process_worker_pool.py", "worker", "HTEX worker"),
    ("/bench/executors/direct_worker.py", "run_tasks", "direct worker"),
    ("/concurrent/futures/process.py", "_process_worker", "pool worker"),
    ("/loky/process_executor.py", "_process_worker", "loky worker"),
    ("/multiprocessing/pool.py", "worker", "pool worker"),
    ("/multiprocessing/resource_tracker.py", "main", "resource tracker"),
    ("/multiprocessing/forkserver.py", "main", "fork server"),
)
#: The roles of processes by their commands.
_BY_COMMAND = (
    ("gristmill-keeper", "keeper"),
    ("interchange.py", "HTEX interchange"),
    ("HTEX interchange", "HTEX interchange"),
    ("process_worker_pool.py", "HTEX manager"),
    ("distributed.", "Dask"),
    ("raylet", "Ray raylet"),
    ("ray::", "Ray worker"),
    ("gcs_server", "Ray control store"),
    ("from multiprocessing", "multiprocessing"),
)
#: The processes and threads whose own code is an engine's.
_ENGINE_THREADS = ("gristmill", "ZMQbg", "keeper")


@dataclass
class Row:
    """The threads of one kind."""

    process: str
    thread: str
    #: The number of threads.
    threads: int = 0
    #: The number of samples of all threads together.
    samples: int = 0
    #: Their samples by category; fractions of samples where two sources were combined.
    categories: defaultdict[Category, float] = field(default_factory=lambda: defaultdict(float))
    states: Counter[str] = field(default_factory=Counter)
    functions: Counter[Frame] = field(default_factory=Counter)
    cpu_s: float = 0.0
    #: True if the time is divided by Python stacks, false if by the kernel's states.
    has_stacks: bool = False
    #: The ids of the threads: process, thread.
    members: list[tuple[int, int]] = field(default_factory=list)

    def share(self, category: Category) -> float:
        """Returns the share of their time in a category."""
        return self.categories.get(category, 0.0) / self.samples if self.samples else 0.0

    @property
    def interpreter_share(self) -> float | None:
        """The share of their time spent waiting for the interpreter's lock; ``None`` if they were not sampled."""
        looks = self.states.total()
        return self.states[kernel.INTERPRETER] / looks if looks else None


def of(seen: Seen, is_native: bool) -> list[Row]:
    """Returns the rows by process, the program's first, main threads before others, then by number of samples.

    :param is_native: whether the stacks themselves say what native code waited for.
    """
    watched, own = seen.watch.threads, seen.own
    sampled = stacks.read(seen.stacks)
    processes = sorted({process for process, _ in [*watched, *sampled]} - own)
    roles = {one: _role(one, sampled.values(), seen.watch.commands) for one in processes}
    roles[seen.program] = "program"
    rows: dict[tuple[str, str], Row] = {}
    for key in sorted({*watched, *sampled}):
        process = key[0]
        of_kernel, of_python = watched.get(key), sampled.get(key)
        looks = max(of_kernel.samples if of_kernel else 0, of_python.samples if of_python else 0)
        if process in own or looks < LOOKS_MIN:
            continue
        name = _thread_name(key, of_kernel, of_python)
        row = rows.setdefault((roles[process], name), Row(roles[process], name))
        row.threads += 1
        row.members.append(key)
        _add(row, of_kernel, of_python, is_native)
    order = list(dict.fromkeys(["program", *roles.values()]))
    return sorted(
        rows.values(), key=lambda row: (order.index(row.process), row.thread != _MAIN, -row.samples)
    )


def _add(
    row: Row, of_kernel: WatchedThread | None, of_python: SampledThread | None, is_native: bool
) -> None:
    if of_kernel is not None:
        row.states += of_kernel.states
        row.cpu_s += of_kernel.cpu_s
    if of_python is not None and of_python.samples:
        row.has_stacks = True
        row.samples += of_python.samples
        states = Counter[str]() if is_native or of_kernel is None else of_kernel.states
        for category, count in settle(of_python.categories, of_python.open, states).items():
            row.categories[category] += count
        row.functions += of_python.functions
    elif of_kernel is not None:
        is_engine = any(word in f"{row.process} {of_kernel.name}" for word in _ENGINE_THREADS)
        row.samples += of_kernel.samples
        for state, count in of_kernel.states.items():
            row.categories[by_state(state, is_engine)] += count


def by_state(state: str, is_engine: bool) -> Category:
    """Returns the category for the kernel's state of a thread that runs no Python."""
    if state == kernel.RUNS:
        return "engine" if is_engine else "program"
    if state == kernel.INTERPRETER:
        return "semaphore"
    if is_engine and state in ("semaphore", "standard library"):
        # An engine waits for tasks, results and messages by futexes and short sleeps.
        return "poll"
    return next((one for one in CATEGORIES if one == state), "poll")


def _thread_name(
    key: tuple[int, int], of_kernel: WatchedThread | None, of_python: SampledThread | None
) -> str:
    """Returns the thread's name with numbers replaced by N: the threads of a pool are one kind."""
    if of_python is not None and of_python.name:
        name = of_python.name
    elif key[0] == key[1]:
        name = _MAIN
    else:
        name = of_kernel.name if of_kernel is not None else "thread"
    return _NUMBER.sub("N", name)


def _role(process: int, sampled: Iterable[SampledThread], commands: dict[int, str]) -> str:
    """Returns the purpose of a process."""
    own = [thread for thread in sampled if thread.process == process]
    seen = {frame for thread in own for frame in thread.seen}
    for file, function, role in _BY_FRAMES:
        if any(frame.file.endswith(file) and frame.function == function for frame in seen):
            return role
    command = commands.get(process) or (own[0].command if own else "")
    for part, role in _BY_COMMAND:
        if part in command:
            return role
    if " -c " in command:
        return "python -c"
    words = [Path(word).name for word in command.split() if not word.startswith("-")]
    if len(words) > 1 and words[0].startswith("python"):
        return words[1]
    return words[0] if words else "process"
