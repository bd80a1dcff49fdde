"""``gristmill trace``: where the time of a program's tasks goes, by component, from a sample of their tags.

Source of the idea: "Towards Fine-grained Parallelism in Parallel and Distributed Python Libraries", section 3.2, which
stamps each task as it enters and leaves every component.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TextIO

from gristmill._profile import program, submissions, tags


class Files(NamedTuple):
    """Where what was found is written besides."""

    #: The tags, for later.
    record: Path | None = None
    #: A report.
    html: Path | None = None
    #: A trace for Perfetto.
    perfetto: Path | None = None


def run(words: Sequence[str], size: int, files: Files) -> int:
    """Runs a program with its tasks sampled and prints where their time went; gives its exit status.

    :param words: a program with its arguments, or a file that an earlier run has recorded.
    """
    if (place := _no_place(*files)) is not None:
        print(f"gristmill trace: there is no folder {place}", file=sys.stderr)
        return 2
    try:
        if len(words) == 1 and tags.is_recorded(Path(words[0])):
            _show(tags.read(Path(words[0])), files._replace(record=None), sys.stdout)
            return 0
        found = program.find(words)
    except (program.NoProgram, tags.NoTags) as error:
        print(f"gristmill trace: {error}", file=sys.stderr)
        return 2
    # The program may go elsewhere.
    files = Files(*(None if file is None else file.absolute() for file in files))
    sample = submissions.Sample(size)
    submissions.watch(sample)
    # The program has arguments of its own.
    command = ["gristmill", *sys.argv[1:]]
    try:
        program.run(found)
    finally:
        recorded = tags.Recorded(sample.count, sample.tags(), command, tags.machine())
        _show(recorded, files, sys.stderr)
    return 0


def _no_place(*files: Path | None) -> Path | None:
    """The folder that is not there, of those that files are to be written to."""
    folders = (file.absolute().parent for file in files if file is not None)
    return next((folder for folder in folders if not folder.is_dir()), None)


def _show(recorded: tags.Recorded, files: Files, output: TextIO) -> None:
    print("\n".join(tags.table(recorded)), file=output)
    if files.record is not None:
        tags.write(files.record, recorded)
    if files.html is not None:
        from gristmill._profile import report

        page = report.of_tags(recorded)
        files.html.write_text(page, encoding="utf-8", errors="backslashreplace")
    if files.perfetto is not None:
        from gristmill._profile import task_slices

        files.perfetto.write_text(json.dumps(task_slices.document(recorded)))
