"""Result of a discovery as lines that fit a terminal of 100 columns."""

from __future__ import annotations

import os
import textwrap

from gristmill._context.imports import NEVER, OPTIONAL
from gristmill._context.resolving import INSTALLED, LOCAL, NAMESPACE, NOWHERE, OURS, STANDARD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gristmill._context.discovery import Discovery
    from gristmill._context.environment import Environment
    from gristmill._context.requirements import Needed
    from gristmill._context.resolving import Module

_WIDTH = 100


def lines(found: Discovery) -> list[str]:
    """Returns the whole report."""
    blocks = (
        _environment(found.environment),
        _imports(found.modules),
        _distributions(found),
        _code(found),
        _inputs(found),
        _notes(found),
        _missing(found),
    )
    made: list[str] = []
    for block in map(list, blocks):
        made += [*([""] if made and block else []), *block]
    return made


def _environment(one: Environment) -> Iterator[str]:
    interpreter, disk = one.interpreter, one.filesystem
    base = f", of {one.base_kind} at {one.base}" if one.base != one.prefix else ""
    libc = f", {interpreter.libc}" if interpreter.libc else ""
    sight = {True: "other nodes see it", False: "of this node", None: "perhaps of this node only"}
    yield from _wrapped(f"environment: {one.kind} at {one.prefix}{base}")
    yield from _wrapped(
        f"  {interpreter.implementation} {interpreter.version}, {interpreter.platform}{libc}; "
        f"file system {disk.name}: {sight[disk.is_shared]}"
    )


def _imports(modules: Sequence[Module]) -> Iterator[str]:
    shown = [one for one in modules if one.kind != STANDARD and one.need != NEVER]
    widths = (26, 36, 23, 12)
    if shown:
        yield _row(widths, ("import", "why", "distribution", "version"))
    for one in shown:
        there = one.distributions if one.kind == INSTALLED else {_without_distribution(one): ""}
        for name, version in there.items():
            yield _row(widths, (one.name, _reasons(one.why), name, version))
    standard = [one.name for one in modules if one.kind == STANDARD]
    if standard:
        yield from _wrapped(f"standard library: {', '.join(standard)}")


def _without_distribution(one: Module) -> str:
    if one.kind == NOWHERE:
        return "not here, optional" if one.need == OPTIONAL else "NOT FOUND"
    kinds = {LOCAL: "your code", OURS: "on every node", NAMESPACE: "only a folder"}
    return kinds.get(one.kind, "of no distribution")


def _distributions(found: Discovery) -> Iterator[str]:
    widths = (26, 13, -8, -10, 9, 28)
    if not found.distributions:
        return
    yield _row(widths, ("distribution", "version", "files", "size", "from", "why"))
    for needed in found.distributions.values():
        one = needed.distribution
        count, size = one.totals
        source = "editable" if one.is_editable else one.installer or "-"
        yield _row(
            widths, (one.name, one.version, f"{count:,}", size_text(size), source, _why(needed))
        )
    count, size = found.totals
    number = len(found.distributions)
    whole = f"{number} distribution{'s' if number != 1 else ''}"
    yield _row(widths, (whole, "", f"{count:,}", size_text(size), "", ""))


def _why(needed: Needed) -> str:
    required = f"for {_reasons(needed.required_by)}" if needed.required_by else ""
    return ", ".join(filter(None, ["imported" if needed.is_imported else "", required]))


def _code(found: Discovery) -> Iterator[str]:
    widths = (44, -10, 11, 32)
    if found.files:
        yield _row(widths, ("your code", "size", "goes", "why"))
    for file in found.files:
        yield _row(widths, (_tail(_near(file.path), 44), size_text(file.size), file.how, file.why))
    if found.by_value:
        yield from _wrapped(f"by value: {', '.join(found.by_value)}")


def _inputs(found: Discovery) -> Iterator[str]:
    if found.observed is None:
        return
    widths = (88, -11)
    yield _row(widths, ("input files, read in the observed run", "size"))
    for one in found.observed.inputs:
        yield _row(widths, (_tail(_near(one.path), 88), size_text(one.size)))
    if not found.observed.inputs:
        yield "none"


def _notes(found: Discovery) -> Iterator[str]:
    for note in found.notes:
        yield from _wrapped(f"note: {note}")


def _missing(found: Discovery) -> Iterator[str]:
    for one in found.missing:
        yield from _wrapped(f"not found ({one.step}): {one.name}, {one.why}: {one.advice}")


def _reasons(all_of_them: Sequence[str]) -> str:
    rest = f" and {len(all_of_them) - 1} more" if len(all_of_them) > 1 else ""
    return f"{all_of_them[0]}{rest}" if all_of_them else ""


def _near(path: str) -> str:
    """Returns a path relative to the working directory if it is below it."""
    near = os.path.relpath(path)
    return path if near.startswith("..") else near


def size_text(size: int) -> str:
    """Returns a number of bytes as text with three significant digits."""
    for unit, whole in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= whole:
            return (
                f"{size / whole:.3g} {unit}"
                if size < 999 * whole
                else f"{size / whole:,.0f} {unit}"
            )
    return f"{size} B"


def _row(widths: Sequence[int], cells: Sequence[str]) -> str:
    """Returns cells as a row of columns; a negative width aligns the cell to the right."""
    made = []
    for width, cell in zip(widths, cells, strict=True):
        text = _cut(cell, abs(width))
        made.append(text.rjust(-width) if width < 0 else text.ljust(width))
    return " ".join(made).rstrip()


def _cut(text: str, width: int) -> str:
    text = _printable(text)
    return text if len(text) <= width else f"{text[: width - 3]}..."


def _tail(path: str, width: int) -> str:
    """Returns a path, cut at its beginning if it is too long."""
    return path if len(path) <= width else f"...{path[3 - width :]}"


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(
        _printable(text),
        _WIDTH,
        subsequent_indent="  ",
        break_on_hyphens=False,
    )


def _printable(text: str) -> str:
    """Returns text without control characters, which a terminal might obey: it quotes other people's files."""
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text)
