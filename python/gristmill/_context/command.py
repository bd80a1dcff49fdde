"""Command ``gristmill env``: the needs of a program, their sources, and their sizes."""

from __future__ import annotations

import argparse
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from gristmill._context.discovery import Discovery


def add_commands(commands: argparse._SubParsersAction[Any]) -> None:
    """Adds the subcommand ``show`` and its options."""
    show = commands.add_parser(
        "show",
        help="show what a program needs on other nodes, and why",
        usage="gristmill env show [options] PROGRAM [-- ARGUMENTS]",
    )
    show.add_argument("program", help="the Python file of the program")
    show.add_argument(
        "--function", metavar="NAME", help="show only what this function of the program needs"
    )
    show.add_argument(
        "--run",
        action="store_true",
        help="runs the program, with the arguments behind --, and shows also what it imports and reads",
    )
    show.add_argument(
        "--data",
        action="append",
        default=[],
        metavar="FOLDER",
        help="with --run: files in this folder are data too, like those in the working directory",
    )
    show.add_argument("--json", action="store_true", help="prints everything as JSON")


def run(options: argparse.Namespace, arguments: list[str]) -> int:
    """Runs the discovery and prints the result.

    Returns the exit status: 1 if something needed was not found or the observed program failed, 2 if the arguments are
    wrong or the program cannot be read.
    """
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

    # This happens before the program runs, so that a wrong program or function name fails at once.
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
        print(
            f"gristmill env: {count} of the needed modules or files were not found", file=sys.stderr
        )
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
    defines = f"it defines {', '.join(names)}" if names else "it defines no function"
    return f"{options.program} has no function {options.function}: {defines}"
