"""Writes ``docs/reference/cli.md``, the commands of ``gristmill`` and their options, from the command's parsers."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from gristmill import _cli

PAGE = Path(__file__).parent.parent / "docs/reference/cli.md"
_HEAD = """# Command line

This page lists the commands of `gristmill` and their options. `scripts/command_reference.py` writes it from the parsers
of the commands.

`gristmill --version` prints the version, and `gristmill COMMAND --help` explains a command.
"""


def page() -> str:
    """Returns the text of the page."""
    parts = [_HEAD]
    for name, (prepare, text) in _cli._COMMANDS.items():
        parser = argparse.ArgumentParser(prog=f"gristmill {name}", add_help=False)
        prepare(parser)
        parts += _sections(parser, text, 2)
    for name, (distribution, text) in _cli._PROVIDED.items():
        parts.append(
            f"## gristmill {name}\n{_sentence(text)} The distribution `{distribution}` provides it.\n"
        )
    return "\n".join(parts)


def _sections(parser: argparse.ArgumentParser, text: str, level: int) -> Iterator[str]:
    """Yields the section of a command, and those of the commands below it."""
    below = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
    rows = [_row(parser, one) for one in parser._actions if _is_listed(one)]
    lines = [f"{'#' * level} {parser.prog}", _sentence(text), ""]
    if rows:
        lines += ["| argument | meaning |", "|---|---|", *rows, ""]
    yield "\n".join(lines)
    for group in below:
        texts = {one.dest: one.help or "" for one in group._choices_actions}
        for name, inner in group.choices.items():
            yield from _sections(inner, texts[name], level + 1)


def _is_listed(action: argparse.Action) -> bool:
    is_other_kind = isinstance(action, (argparse._HelpAction, argparse._SubParsersAction))
    return not is_other_kind and action.help != argparse.SUPPRESS


def _row(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    names = [f"`{one}`" for one in _spellings(action)]
    help_text = parser._get_formatter()._expand_help(action) if action.help else ""
    return f"| {', '.join(names)} | {help_text} |".replace("<", "&lt;")


def _spellings(action: argparse.Action) -> list[str]:
    """Returns the spellings of an argument on a command line, each with the name of its value."""
    value = action.metavar or (action.dest.upper() if action.option_strings else action.dest)
    if action.choices is not None:
        value = "{" + ",".join(map(str, action.choices)) + "}"
    if not action.option_strings:
        return [str(value)]
    suffix = "" if action.nargs == 0 else f" {value}"
    return [option + suffix for option in action.option_strings]


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."


if __name__ == "__main__":
    PAGE.write_text(page())
