"""The kernel's view of each thread of a run, Python's or not: whether it runs, and which system call it sleeps in.

``/proc/PID/task/TID/syscall`` has the number and the arguments of the call that a thread sleeps in. A thread that waits
for the interpreter's lock sleeps in a futex whose address is in the interpreter's static data, where no other lock is
(``_PyRuntime``; tried with CPython 3.11 to 3.13). The address tells it from threads that wait for other locks.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gristmill._profile.system_calls import BY_NUMBER, FUTEX, RESTART

#: States of a thread: it runs, or would if a core were free; it waits for the interpreter's lock.
RUNS, INTERPRETER = "runs", "interpreter lock"
#: The state of a thread that sleeps in an unknown call.
SLEEPS = "sleeps"
#: The limit of slices in all timelines together: an hour of about twenty threads that change with each sample.
_SLICES_MAX = 2_000_000
#: The number that means no system call: the thread was stopped, or waits for memory.
_NONE = -1
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass
class Slice:
    """A time in which a thread was seen in one state; seconds of the monotonic clock."""

    state: str
    begin: float
    end: float


@dataclass
class WatchedThread:
    """A thread as the kernel sees it."""

    process: int
    thread: int
    name: str
    states: Counter[str] = field(default_factory=Counter)
    timeline: list[Slice] = field(default_factory=list)
    #: True if the timeline ends before the thread, because there were too many slices.
    is_cut: bool = False
    #: The processor time at the last search, seconds.
    cpu_s: float = 0.0

    @property
    def samples(self) -> int:
        """The number of times that it was sampled."""
        return self.states.total()


class Watch:
    """A sampler of all threads of given processes."""

    def __init__(self, slices_max: int = _SLICES_MAX) -> None:
        self._slices_max = slices_max
        self.threads: dict[tuple[int, int], WatchedThread] = {}
        self.commands: dict[int, str] = {}
        #: True if the kernel does not say what threads sleep in.
        self.is_refused = False
        self._living: list[WatchedThread] = []
        self._statics: dict[int, list[tuple[int, int]]] = {}
        self._slices = 0

    def find(self, processes: list[int]) -> None:
        """Finds the current threads of these processes, and the processor time that each has used."""
        self._living = []
        for process in processes:
            command = _text(f"/proc/{process}/cmdline").replace("\0", " ").strip()
            if command:
                if self.commands.get(process) != command:
                    # The process has executed another program.
                    self._statics.pop(process, None)
                self.commands[process] = command
            for number in _numbers(f"/proc/{process}/task"):
                stat = _text(f"/proc/{process}/task/{number}/stat")
                if not stat:
                    continue
                name = stat[stat.find("(") + 1 : stat.rfind(")")]
                fields = stat.rpartition(")")[2].split()
                thread = self.threads.setdefault(
                    (process, number), WatchedThread(process, number, name)
                )
                thread.name = name
                thread.cpu_s = (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
                self._living.append(thread)

    def look(self, now: float) -> None:
        """Records the state of each found thread."""
        for thread in self._living:
            state = self._state(thread)
            if state is None:
                continue
            thread.states[state] += 1
            if thread.is_cut:
                continue
            last = thread.timeline[-1] if thread.timeline else None
            if last is not None:
                last.end = now
                if last.state == state:
                    continue
            if self._slices < self._slices_max:
                thread.timeline.append(Slice(state, now, now))
                self._slices += 1
            else:
                thread.is_cut = True

    def _state(self, thread: WatchedThread) -> str | None:
        """Returns the thread's state; ``None`` if it has none, or has ended."""
        folder = f"/proc/{thread.process}/task/{thread.thread}"
        try:
            with open(f"{folder}/syscall", "rb", buffering=0) as file:
                words = file.read(200).split()
        except ProcessLookupError:
            return None
        except FileNotFoundError:
            if not os.path.exists(folder):
                return None
            words = []
            self.is_refused = True
        except OSError:
            words = []
            self.is_refused = True
        if not words:
            return _state_by_letter(_text(f"{folder}/stat"))
        if words[0] == b"running":
            return RUNS
        number = int(words[0])
        if number == RESTART and thread.timeline and thread.timeline[-1].state != RUNS:
            # The thread was stopped for a moment in its system call, and sleeps on in it.
            return thread.timeline[-1].state
        if number == _NONE:
            return _state_by_letter(_text(f"{folder}/stat"))
        if number == FUTEX and self._is_of_interpreter(thread.process, int(words[1], 16)):
            return INTERPRETER
        return BY_NUMBER.get(number, SLEEPS)

    def _is_of_interpreter(self, process: int, address: int) -> bool:
        statics = self._statics.get(process)
        if statics is None:
            statics = self._statics[process] = list(static_data(_text(f"/proc/{process}/maps")))
        return any(begin <= address < end for begin, end in statics)


def static_data(maps: str) -> Iterator[tuple[int, int]]:
    """Yields the address ranges of the interpreter's static data, program or library, from ``/proc/PID/maps``.

    Zero-initialized data has no file and follows directly after a mapping of the file.
    """
    previous_end = -1
    for line in maps.splitlines():
        fields = line.split(maxsplit=5)
        begin, end = (int(word, 16) for word in fields[0].split("-"))
        file = Path(fields[5]).name if len(fields) == 6 else ""
        is_interpreter = file.startswith(("libpython3", "python3")) or file == "python"
        if "w" in fields[1] and (is_interpreter or (not file and begin == previous_end)):
            yield begin, end
            previous_end = end
        else:
            previous_end = -1


def _state_by_letter(stat: str) -> str | None:
    """Returns the state if only its letter is known; ``None`` if the thread has ended, or a tracer stopped it."""
    letter = stat.rpartition(")")[2].split()[:1]
    if not letter or letter[0] in "ZXtT":
        return None
    return RUNS if letter[0] == "R" else SLEEPS


def _numbers(folder: str) -> list[int]:
    try:
        return [int(name) for name in os.listdir(folder)]
    except OSError:
        return []


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
