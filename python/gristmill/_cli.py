"""The ``gristmill`` command.

Only what the command that is called needs is loaded: node agents are this command, and start by the thousand.
"""

from __future__ import annotations

import argparse
import os
import sys

from gristmill import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    #: Does what the options say, with what stood behind ``--``; gives the exit status.
    Run = Callable[[argparse.Namespace, list[str]], int]


#: As of a process that ``SIGPIPE`` has ended.
_PIPE_STATUS = 141


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; gives its exit status."""
    words = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(
        prog="gristmill", description="Runs very many very small Python tasks."
    )
    parser.add_argument("--version", action="version", version=f"gristmill {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    called = next((word for word in words if not word.startswith("-")), None)
    runs: list[Run] = []
    for name, (prepare, text) in _COMMANDS.items():
        command = commands.add_parser(name, help=text)
        if name == called:
            runs.append(prepare(command))
    own, rest = _split(words)
    options = parser.parse_args(own)
    try:
        status = runs[0](options, rest)
        sys.stdout.flush()
    except BrokenPipeError:
        if not _is_unread():
            raise
        # What is still to be printed goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return _PIPE_STATUS
    return status


def _is_unread() -> bool:
    """Whether whoever read what is printed has left, as ``head`` does."""
    import select

    output = select.poll()
    output.register(1, 0)
    return any(event & select.POLLERR for _, event in output.poll(0))


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    """Tells our arguments from others: the program's, behind ``--`` of ``gristmill env``, and fields of plug-ins."""
    if words[:1] == ["bench"]:
        return _without_fields(words)
    if words[:1] != ["env"] or "--" not in words:
        return words, []
    place = words.index("--")
    return words[:place], words[place + 1 :]


def _without_fields(words: list[str]) -> tuple[list[str], list[str]]:
    """Tells ``--app.size 3`` and ``--app.size=3`` from what has no dot."""
    own: list[str] = []
    fields: list[str] = []
    left = iter(words)
    for word in left:
        name, has_value, _ = word.partition("=")
        if not (name.startswith("--") and "." in name):
            own.append(word)
            continue
        fields.append(word)
        if not has_value:
            fields.extend(value for value in [next(left, None)] if value is not None)
    return own, fields


def _trace(parser: argparse.ArgumentParser) -> Run:
    from pathlib import Path

    parser.add_argument(
        "--sample", type=int, default=10_000, metavar="N", help="tasks to look at (10,000)"
    )
    parser.add_argument("--record", type=Path, metavar="FILE", help="write their tags there")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a report there")
    parser.add_argument(
        "--perfetto", type=Path, metavar="FILE", help="write a trace for ui.perfetto.dev there"
    )
    parser.add_argument(
        "program",
        help="a Python file, a command that is one, -- -m MODULE, or what --record has written",
    )
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")

    def run(options: argparse.Namespace, _rest: list[str]) -> int:
        if options.sample < 1:
            parser.error("--sample must be at least 1")
        from gristmill import _trace

        words = [options.program, *options.arguments]
        files = _trace.Files(options.record, options.html, options.perfetto)
        return _trace.run(words, options.sample, files)

    return run


def _profile(parser: argparse.ArgumentParser) -> Run:
    from gristmill._profile import command

    command.add_arguments(parser)
    return lambda options, _rest: command.run(parser, options)


def _node(parser: argparse.ArgumentParser) -> Run:
    from gristmill._nodes import agent

    agent.add_arguments(parser)
    return lambda options, _rest: agent.run(parser, options)


def _key(parser: argparse.ArgumentParser) -> Run:
    from gristmill._nodes import keys

    keys.add_arguments(parser)
    return lambda options, _rest: keys.run(parser, options)


def _top(parser: argparse.ArgumentParser) -> Run:
    from gristmill._top import command

    command.add_arguments(parser)
    return lambda options, _rest: command.run(parser, options)


def _doctor(parser: argparse.ArgumentParser) -> Run:
    from gristmill._doctor import command

    command.add_arguments(parser)
    return lambda options, _rest: command.run(options)


def _env(parser: argparse.ArgumentParser) -> Run:
    from gristmill._context import command as needs
    from gristmill._images import command as images

    kinds = parser.add_subparsers(metavar="command", required=True)
    needs.add_commands(kinds)
    images.add_commands(kinds)

    def run(options: argparse.Namespace, rest: list[str]) -> int:
        is_of_images = hasattr(options, "run_image")
        return images.run(options) if is_of_images else needs.run(options, rest)

    return run


def _bench(parser: argparse.ArgumentParser) -> Run:
    from importlib.util import find_spec

    if not all(map(find_spec, ("msgspec", "pydantic", "tomli_w"))):
        parser.add_argument("arguments", nargs=argparse.REMAINDER)
        return lambda _options, _rest: _lacks_bench()
    from gristmill.bench import command

    command.add_commands(parser)
    return lambda options, rest: command.main(parser, options, rest)


def _lacks_bench() -> int:
    print(
        "gristmill bench: it needs more than is installed: pip install gristmill[bench]",
        file=sys.stderr,
    )
    return 2


#: What prepares the parser of each command, and what the command is for.
_COMMANDS: dict[str, tuple[Callable[[argparse.ArgumentParser], Run], str]] = {
    "trace": (_trace, "run a program and show where the time of its tasks goes"),
    "profile": (_profile, "run a program and show where the time of all its threads goes"),
    "node": (_node, "offer this node's workers to a client"),
    "key": (_key, "make the keys of a client and its nodes"),
    "top": (_top, "show what programs with nodes are doing"),
    "doctor": (_doctor, "say what works on this machine"),
    "bench": (_bench, "measure task engines: applications on any executor"),
    "env": (_env, "show what programs need, and make images of that"),
}


if __name__ == "__main__":
    sys.exit(main())
