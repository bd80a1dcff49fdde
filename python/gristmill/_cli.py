"""The ``gristmill`` command."""

from __future__ import annotations

import argparse
import sys

from gristmill import __version__
from gristmill._context import command as needs
from gristmill._doctor import command as doctor
from gristmill._images import command as images
from gristmill._nodes import agent, keys
from gristmill._top import command as look


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; gives its exit status."""
    parser = argparse.ArgumentParser(
        prog="gristmill", description="Runs very many very small Python tasks."
    )
    parser.add_argument("--version", action="version", version=f"gristmill {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    trace = commands.add_parser(
        "trace", help="run a program and show where the time of its tasks goes"
    )
    trace.add_argument(
        "--sample", type=int, default=10_000, metavar="N", help="tasks to look at (10,000)"
    )
    trace.add_argument("program", help="the Python file to run")
    trace.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    node = commands.add_parser("node", help="offer this node's workers to a client")
    agent.add_arguments(node)
    key = commands.add_parser("key", help="make the keys of a client and its nodes")
    keys.add_arguments(key)
    top = commands.add_parser("top", help="show what programs with nodes are doing")
    look.add_arguments(top)
    checks = commands.add_parser("doctor", help="say what works on this machine")
    doctor.add_arguments(checks)
    env = commands.add_parser("env", help="show what programs need, and make images of that")
    kinds = env.add_subparsers(metavar="command", required=True)
    needs.add_commands(kinds)
    images.add_commands(kinds)
    own, rest = needs.split(sys.argv[1:] if arguments is None else arguments)
    options = parser.parse_args(own)
    if hasattr(options, "run_image"):
        return images.run(options)
    if options.command == "env":
        return needs.run(options, rest)
    if options.command == "doctor":
        return doctor.run(options)
    if options.command == "top":
        return look.run(top, options)
    if options.command == "node":
        return agent.run(node, options)
    if options.command == "key":
        return keys.run(key, options)
    if options.sample < 1:
        parser.error("--sample must be at least 1")
    from gristmill import _trace

    return _trace.run(options.program, options.arguments, options.sample)


if __name__ == "__main__":
    sys.exit(main())
