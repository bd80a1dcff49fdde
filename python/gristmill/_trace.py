"""``gristmill trace``: the time of a program's tasks, by component, from a sample of their timings.

Source of the idea: "Towards Fine-grained Parallelism in Parallel and Distributed Python Libraries", section 3.2, which
stamps each task as it enters and leaves every component.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TextIO

from gristmill._profile import program, submissions, timings


class Files(NamedTuple):
    """Files that receive the results in addition to the terminal."""

    #: The timings, for later.
    record: Path | None = None
    #: A report in HTML.
    html: Path | None = None
    #: A trace for Perfetto.
    perfetto: Path | None = None


def run(words: Sequence[str], size: int, files: Files) -> int:
    """Runs a program with its tasks sampled and prints where their time went. Returns the program's exit status.

    :param words: a program with its arguments, or a file that an earlier run has recorded.
    """
    if (place := _no_place(*files)) is not None:
        print(f"gristmill trace: there is no folder {place}", file=sys.stderr)
        return 2
    try:
        if len(words) == 1 and timings.is_recorded(Path(words[0])):
            return _show(timings.read(Path(words[0])), files._replace(record=None), sys.stdout)
        found = program.find(words)
    except (program.NoProgram, timings.TimingsError) as error:
        print(f"gristmill trace: {error}", file=sys.stderr)
        return 2
    # The program may change its working directory.
    files = Files(*(None if file is None else file.absolute() for file in files))
    sample = submissions.Sample(size)
    submissions.watch(sample)
    # The program replaces these arguments by its own.
    command = ["gristmill", *sys.argv[1:]]
    status = 0
    try:
        program.run(found)
    finally:
        # The user then sees an exception of the program, and the program's exit status.
        recorded = timings.Recorded(sample.count, sample.timings(), command, timings.machine())
        status = _show(recorded, files, sys.stderr)
    return status


def _no_place(*files: Path | None) -> Path | None:
    """Returns the first missing folder of those that the files are to go to."""
    folders = (file.absolute().parent for file in files if file is not None)
    return next((folder for folder in folders if not folder.is_dir()), None)


def _show(recorded: timings.Recorded, files: Files, output: TextIO) -> int:
    """Prints the table and writes each file that can be written. Returns 1 if one cannot, else 0."""
    print("\n".join(timings.table(recorded)), file=output)
    status = 0
    for file, write in zip(files, (timings.write, _write_page, _write_slices), strict=True):
        if file is None:
            continue
        try:
            write(file, recorded)
        except OSError as error:
            print(f"gristmill trace: cannot write {file}: {error.strerror}", file=sys.stderr)
            status = 1
    return status


def _write_page(file: Path, recorded: timings.Recorded) -> None:
    from gristmill._profile import report

    page = report.of_timings(recorded)
    file.write_text(page, encoding="utf-8", errors="backslashreplace")


def _write_slices(file: Path, recorded: timings.Recorded) -> None:
    from gristmill._profile import task_slices

    file.write_text(json.dumps(task_slices.document(recorded)))
