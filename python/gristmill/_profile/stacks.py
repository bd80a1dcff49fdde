"""Sampled stacks as py-spy writes them: a line for each that was seen, with how often.

``process 7:"python a.py";thread (9): name;outer (file:1);inner (file:2) 41``: processes from the first one down, then
the thread by its number in the system, then frames from the outermost to the innermost.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from gristmill._profile.categories import Category, Frame, categorize, is_native

# A command may have any characters, so that what is looked for is the last process before the thread.
_LINE = re.compile(
    r'(?:.*;)?process (?P<process>\d+):"(?P<command>.*)";thread \((?P<thread>\d+)\)(?:: (?P<name>[^;]*))?'
    r"(?:;(?P<frames>.*))? (?P<count>\d+)$",
    re.DOTALL,
)
#: Where the profile's own code is.
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
    #: Of these, samples that only say whose code was running.
    open: Counter[Category] = field(default_factory=Counter)
    #: How often each Python function was the innermost one.
    functions: Counter[Frame] = field(default_factory=Counter)
    #: Files and functions that were ever on the stack: they tell what the process is for.
    seen: set[Frame] = field(default_factory=set)

    @property
    def samples(self) -> int:
        """How often it was looked at."""
        return self.categories.total()


def read(lines: Iterable[str]) -> dict[tuple[int, int], SampledThread]:
    """All threads of what py-spy has written, by process and thread."""
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
    """Whether the program was waiting to be looked at, or its notes were written or taken."""
    python = next((frame for frame in reversed(stack) if not is_native(frame)), None)
    return (python is not None and _PROFILE in python.file) or any(
        frame.file.endswith(_NOTES_FILE) and frame.function.endswith("write") for frame in stack
    )


def frames(text: str) -> list[Frame]:
    """The frames of a line, outermost first; what is no frame is left out."""
    found = map(_FRAME.match, text.split(";"))
    return [Frame(one["function"], one["file"]) for one in found if one is not None]
