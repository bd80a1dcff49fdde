"""``gristmill env``: what a program needs, what it comes from, and how large that is."""

from __future__ import annotations

import argparse
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from gristmill._context.discovery import Discovery


def add_commands(commands: argparse._SubParsersAction[Any]) -> None:
    """Says what the command understands."""
    show = commands.add_parser(
        "show",
        help="show what a program needs on other nodes, and why",
        usage="gristmill env show [options] PROGRAM [-- ARGUMENTS]",
    )
    show.add_argument("program", help="the Python file")
    show.add_argument("--function", metavar="NAME", help="only what this function of it needs")
    show.add_argument(
        "--run",
        action="store_true",
        help="runs the program, with the arguments behind --, and shows what it imports and reads, too",
    )
    show.add_argument(
        "--data",
        action="append",
        default=[],
        metavar="FOLDER",
        help="with --run: files in this folder are data, too, besides those in the working directory",
    )
    show.add_argument("--json", action="store_true", help="prints everything as JSON")


def run(options: argparse.Namespace, arguments: list[str]) -> int:
    """Looks; gives the exit status: 1 if something that is needed was not found."""
    if (arguments or options.data) and not options.run:
        return _refuse("arguments behind -- and --data are for --run")
    try:
        found = _discover(options, arguments)
    except (OSError, SyntaxError, ValueError) as error:
        return _refuse(f"{options.program} cannot be read: {error}")
    except LookupError:
        return _refuse(_unknown_function(options))
    if options.json:
        import json

        print(json.dumps(found.to_json(), indent=2))
    else:
        from gristmill._context import report

        print("\n".join(report.lines(found)))
    return _judge(found)


def _discover(options: argparse.Namespace, arguments: list[str]) -> Discovery:
    from gristmill._context import discovery, observed

    # Before it runs: it may be wrong.
    found = discovery.of_program(options.program, options.function)
    if not options.run:
        return found
    seen = observed.of_program(options.program, arguments, options.data)
    return discovery.of_program(options.program, options.function, seen)


def _judge(found: Discovery) -> int:
    if found.observed is not None and found.observed.status != 0:
        print("gristmill env: the program failed in the observed run", file=sys.stderr)
        return 1
    if found.missing:
        count = len(found.missing)
        print(f"gristmill env: {count} of what is needed was not found", file=sys.stderr)
        return 1
    return 0


def _refuse(text: str) -> int:
    print(f"gristmill env: {text}", file=sys.stderr)
    return 2


def _unknown_function(options: argparse.Namespace) -> str:
    import ast

    from gristmill._context import parts

    with open(options.program, "rb") as file:
        names = parts.functions_of(ast.parse(file.read()))
    defines = f"it defines {', '.join(names)}" if names else "it defines none"
    return f"{options.program} has no function {options.function}: {defines}"
