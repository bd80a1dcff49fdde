"""The failure matrix as JSON, as text, and as a page of Markdown."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gristmill_bench.faults.verdict import Verdict, Word

#: Files of a matrix.
DATA, PAGE = "matrix.json", "matrix.md"


class Cell(NamedTuple):
    """A run with its verdict."""

    verdict: Verdict
    #: The folder of the run, in the folder of the matrix.
    folder: str
    seconds: float
    #: The errors of the tasks that were meant to fail: the first line of each.
    errors: list[str]


#: Cells by type of failure and by executor, one for each repetition.
Matrix = dict[str, dict[str, list[Cell]]]


def is_whole(found: Matrix) -> bool:
    """Returns whether all runs of the matrix took place."""
    return all(cell.verdict.word is not Word.NOT_RUN for _, _, cell in _cells(found))


def text(found: Matrix) -> str:
    """Returns the matrix as text: a line for each type, with the verdicts of each executor."""
    rows = _rows(found)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = [[word.ljust(width) for word, width in zip(row, widths, strict=True)] for row in rows]
    return "\n".join("  ".join(row).rstrip() for row in padded)


def write(folder: Path, found: Matrix, about: dict[str, Any]) -> None:
    """Writes the results so far."""
    cells = {
        type: {label: [_plain(cell) for cell in cells] for label, cells in row.items()}
        for type, row in found.items()
    }
    (folder / DATA).write_text(json.dumps({**about, "cells": cells}, indent=2), encoding="utf-8")
    (folder / PAGE).write_text(page(found, about["versions"]), encoding="utf-8")


def page(found: Matrix, versions: dict[str, str]) -> str:
    """Returns a page with the table and, below it, the notes on its cells."""
    head, *rows = _rows(found)
    lines = [_row(head), _row(["---"] * len(head)), *map(_row, rows), ""]
    lines += [f"- `{type}`, {label}: {said}" for (type, label), said in _notes(found).items()]
    named = ", ".join(f"{name} {version}" for name, version in versions.items())
    return "\n".join([*lines, "", f"Measured with {named}.", ""])


def _plain(cell: Cell) -> dict[str, Any]:
    return {
        "verdict": str(cell.verdict.word),
        "note": cell.verdict.note,
        "errors": cell.errors,
        "seconds": round(cell.seconds, 3),
        "folder": cell.folder,
    }


def _rows(found: Matrix) -> list[list[str]]:
    labels = list(next(iter(found.values())))
    rows = [[type, *(_said(row[label]) for label in labels)] for type, row in found.items()]
    return [["", *labels], *rows]


def _row(words: Sequence[str]) -> str:
    return f"| {' | '.join(words)} |"


def _said(cells: Sequence[Cell]) -> str:
    """Returns each word of the cells, with its count if they differ."""
    words = Counter(str(cell.verdict.word) for cell in cells)
    if len(words) < 2:
        return next(iter(words), "")
    return ", ".join(f"{word} ({count})" for word, count in words.items())


def _notes(found: Matrix) -> dict[tuple[str, str], str]:
    """Returns the notes on each cell besides its word, without duplicates."""
    notes: dict[tuple[str, str], list[str]] = {}
    for type, label, cell in _cells(found):
        if cell.verdict.note:
            said = notes.setdefault((type, label), [])
            said += [text for text in [str(cell.verdict)] if text not in said]
    return {place: "; or ".join(said) for place, said in notes.items()}


def _cells(found: Matrix) -> Iterator[tuple[str, str, Cell]]:
    for type, row in found.items():
        for label, cells in row.items():
            for cell in cells:
                yield type, label, cell
