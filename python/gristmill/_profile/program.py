"""Execution of a Python program as Python would run it, with notes taken inside: ``gristmill trace`` and ``profile``.

``python -m gristmill._profile.program INSTRUCTIONS PROGRAM ARGUMENTS...``, with instructions in JSON, is the process
of a profiled program: it reports that it is ready, waits until it is sampled, and writes its notes as it ends.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gristmill._main_program import run_module, run_program

if TYPE_CHECKING:
    from gristmill._profile.objects import Garbage


class NoProgram(Exception):
    """An error for a missing Python program. The text says what was found instead."""


def find(words: Sequence[str]) -> list[str]:
    """Returns the words of a runnable program: a file, ``-m`` and a module, or a command that is a Python script.

    :raises NoProgram: there is none.
    """
    if not words:
        raise NoProgram("no program is named")
    name, *arguments = words
    if name == "-m":
        if not arguments:
            raise NoProgram("-m is followed by no module")
        return list(words)
    if os.path.isfile(name):
        return [name, *arguments]
    command = shutil.which(name) if os.sep not in name else None
    if command is None:
        raise NoProgram(f"there is no file {name}")
    if not _is_python(command):
        raise NoProgram(f"{command} is not a Python program")
    return [command, *arguments]


def _is_python(path: str) -> bool:
    with open(path, "rb") as file:
        first = file.readline(200)
    return first.startswith(b"#!") and b"python" in first


def run(words: Sequence[str]) -> None:
    """Runs a program that ``find`` returned as this interpreter's main module. Raises what the program raises."""
    name, *arguments = words
    if name == "-m":
        run_module(arguments[0], arguments[1:])
    else:
        run_program(name, arguments)


def main() -> None:
    """Runs the program that the command line names behind the instructions.

    In these, ``ready`` and ``go`` are descriptors, ``notes`` a file, ``sample`` a number of tasks.
    """
    instructions, words = json.loads(sys.argv[1]), sys.argv[2:]
    if instructions["ready"] is None:
        # Imported here, because modules loaded for a profile would be counted among the program's objects.
        import signal

        from gristmill import _descent

        # The process only measures time: it ends with its parent, which wanted to know that time.
        _descent.end_with_parent(signal.SIGKILL)
    if not instructions["collects"]:
        gc.disable()
    garbage = None
    if instructions["notes"] is not None:
        garbage = _take_notes(Path(instructions["notes"]), instructions["sample"])
    if instructions["ready"] is not None:
        os.write(instructions["ready"], b"r")
        os.close(instructions["ready"])
        # The end of the pipe without a byte means that the profiler has ended.
        if not os.read(instructions["go"], 1):
            sys.exit(2)
        os.close(instructions["go"])
    if garbage is not None:
        # Started only now, because the wait is not part of the program's time.
        garbage.start()
    run(words)


def _take_notes(file: Path, sample_size: int) -> Garbage:
    """Makes this process record its objects, and the timings of a sample of its tasks if ``sample_size`` is not 0.

    :returns: the counter of objects, which is not started yet.
    """
    from gristmill._profile.objects import Garbage

    garbage, process = Garbage(), os.getpid()
    sample = None
    if sample_size:
        from gristmill._profile import submissions

        sample = submissions.Sample(sample_size)
        submissions.watch(sample)

    def write() -> None:
        if os.getpid() != process:
            return
        notes: dict[str, Any] = {"garbage": garbage.found()}
        if sample is not None:
            notes["tasks"], notes["timings"] = sample.count, sample.timings()
        file.write_text(json.dumps(notes))

    # Registered first, so called last: after executors have ended.
    atexit.register(write)
    return garbage


if __name__ == "__main__":
    main()
