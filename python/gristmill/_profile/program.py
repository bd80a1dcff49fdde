"""Runs a Python program as Python would, with what is to be noted inside of it: ``gristmill trace`` and ``profile``.

``python -m gristmill._profile.program ORDERS PROGRAM ARGUMENTS...``, where the orders are JSON, is the process of a
profiled program: it says that it is there, waits until it is looked at, and writes what it has noted as it ends.
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

from gristmill._profile import as_main

if TYPE_CHECKING:
    from gristmill._profile.objects import Garbage


class NoProgram(Exception):
    """There is no such Python program; the text says what there is instead."""


def find(words: Sequence[str]) -> list[str]:
    """The words of a program that can be run: a file, ``-m`` and a module, or a command that is a Python script.

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
        raise NoProgram(f"{command} is no Python program")
    return [command, *arguments]


def _is_python(path: str) -> bool:
    with open(path, "rb") as file:
        first = file.readline(200)
    return first.startswith(b"#!") and b"python" in first


def run(words: Sequence[str]) -> None:
    """Runs a program that was found, in this interpreter, as its main module; raises what it raises."""
    name, *arguments = words
    if name == "-m":
        sys.argv = list(arguments)
        as_main.run_module(arguments[0])
    else:
        sys.argv = list(words)
        as_main.run_file(name)


def main(orders: dict[str, Any], words: Sequence[str]) -> None:
    """Runs a profiled program: ``ready`` and ``go`` are descriptors, ``notes`` a file, ``sample`` a number of tasks."""
    if orders["ready"] is None:
        # Here: what is loaded for a profile would be counted among the objects of the program.
        import signal

        from gristmill import _descent

        # It is run for its time only: who wanted to know that may be gone.
        _descent.end_with_parent(signal.SIGKILL)
    if not orders["collects"]:
        gc.disable()
    garbage = None
    if orders["notes"] is not None:
        garbage = _take_notes(Path(orders["notes"]), orders["sample"])
    if orders["ready"] is not None:
        os.write(orders["ready"], b"r")
        os.close(orders["ready"])
        # Whoever looks has ended if nothing comes.
        if not os.read(orders["go"], 1):
            sys.exit(2)
        os.close(orders["go"])
    if garbage is not None:
        # Not before: the wait is no time of the program's.
        garbage.start()
    run(words)


def _take_notes(file: Path, sample_size: int) -> Garbage:
    """Has this process write down its objects, and the tags of a sample of its tasks if there is to be one.

    :returns: what counts the objects; it has yet to be started.
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
            notes["tasks"], notes["tags"] = sample.count, sample.tags()
        file.write_text(json.dumps(notes))

    # The first to be registered is the last to be called: after executors have ended.
    atexit.register(write)
    return garbage


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2:])
