"""Sampled stacks as py-spy writes them: one line for each distinct stack, with its number of samples.

A line is ``process 7:"python a.py";thread (9): name;outer (file:1);inner (file:2) 41``: processes from the first one
down, then the thread with its system id, then frames from the outermost to the innermost.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from gristmill._profile.categories import Category, Frame, categorize, is_native

# A command may contain any characters, so the pattern matches the last process before the thread.
_LINE = re.compile(
    r'(?:.*;)?process (?P<process>\d+):"(?P<command>.*)";thread \((?P<thread>\d+)\)(?:: (?P<name>[^;]*))?'
    r"(?:;(?P<frames>.*))? (?P<count>\d+)$",
    re.DOTALL,
)
#: The paths of the profile's own code.
_PROFILE, _NOTES_FILE = "/gristmill/_profile/", "/gristmill/_profile/program.py"
_FRAME = re.compile(r"(?P<function>.*) \((?P<file>.*?)(?::\d+)?\)$", re.DOTALL)


@dataclass
class SampledThread:
    """A thread of Python, by its samples."""

    process: int
    thread: int
    name: str
    command: str
    categories: Counter[Category] = field(default_factory=Counter)
    #: The part of these samples that only says whose code was running.
    open: Counter[Category] = field(default_factory=Counter)
    #: The number of samples with each Python function innermost.
    functions: Counter[Frame] = field(default_factory=Counter)
    #: The files and functions that were ever on the stack. They tell the purpose of the process.
    seen: set[Frame] = field(default_factory=set)

    @property
    def samples(self) -> int:
        """The number of samples."""
        return self.categories.total()


def read(lines: Iterable[str]) -> dict[tuple[int, int], SampledThread]:
    """Returns all threads of py-spy's output, by process and thread."""
    threads: dict[tuple[int, int], SampledThread] = {}
    for line in lines:
        parts = _LINE.match(line.rstrip("\n"))
        if parts is None:
            continue
        process, number, count = (int(parts[name]) for name in ("process", "thread", "count"))
        thread = threads.setdefault(
            (process, number), SampledThread(process, number, "", parts["command"])
        )
        thread.name = parts["name"] or thread.name
        stack = frames(parts["frames"] or "")
        if _is_of_profile(stack):
            continue
        category, is_open = categorize(stack)
        thread.categories[category] += count
        if is_open:
            thread.open[category] += count
        thread.seen.update(stack)
        python = next((frame for frame in reversed(stack) if not is_native(frame)), None)
        if python is not None:
            thread.functions[python] += count
    return threads


def _is_of_profile(stack: list[Frame]) -> bool:
    """Returns whether the program was waiting for the profiler, or was taking or writing its notes."""
    python = next((frame for frame in reversed(stack) if not is_native(frame)), None)
    return (python is not None and _PROFILE in python.file) or any(
        frame.file.endswith(_NOTES_FILE) and frame.function.endswith("write") for frame in stack
    )


def frames(text: str) -> list[Frame]:
    """Returns the frames of a line, outermost first. Text that is no frame is left out."""
    found = map(_FRAME.match, text.split(";"))
    return [Frame(one["function"], one["file"]) for one in found if one is not None]
