"""The ``gristmill`` command.

Only the modules of the chosen command are loaded: node agents are this command, and thousands of them start at once.
"""

from __future__ import annotations

import argparse
import errno
import os
import sys

from gristmill import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    #: Function that runs a command with its options and the words behind ``--``, and returns the exit status.
    Run = Callable[[argparse.Namespace, list[str]], int]


#: The group of entry points of commands that other distributions provide: functions that run the command with its
#: words and return the exit status.
COMMAND_GROUP = "gristmill.command"
#: Error numbers of a write without room, also to standard output.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
#: Exit status of a process that ``SIGPIPE`` ended.
_PIPE_STATUS = 141


def main(arguments: list[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    words = sys.argv[1:] if arguments is None else arguments
    called = next((word for word in words if not word.startswith("-")), "")
    if called in _PROVIDED:
        place = words.index(called)
        if set(words[:place]) <= {"--"}:
            return _run_safely(called, lambda: _run_provided(called, words[place + 1 :]))
    parser = argparse.ArgumentParser(
        prog="gristmill", description="A task engine for Python functions that take microseconds."
    )
    parser.add_argument("--version", action="version", version=f"gristmill {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    runs: list[Run] = []
    for name, (prepare, text) in _COMMANDS.items():
        command = commands.add_parser(name, help=text)
        if name == called:
            runs.append(prepare(command))
    for name, (_, text) in _PROVIDED.items():
        commands.add_parser(name, help=text)
    own, rest = _split(words)
    options = parser.parse_args(own)
    return _run_safely(called, lambda: runs[0](options, rest))


def _run_safely(called: str, run: Callable[[], int]) -> int:
    """Runs a command and returns its exit status. Reports a full disk, and output that is no longer read."""
    try:
        status = run()
        sys.stdout.flush()
    except BrokenPipeError:
        if not _is_unread():
            raise
        # Output that is still buffered is discarded.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return _PIPE_STATUS
    except OSError as error:
        if error.errno not in _NO_ROOM or called == "trace":
            raise  # the traced program may have raised it
        where = f"{error.filename}: " if error.filename is not None else ""
        print(f"gristmill {called}: {where}{error.strerror}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    return status


def _is_unread() -> bool:
    """Returns whether the reader of standard output has left, as ``head`` does."""
    import select

    output = select.poll()
    output.register(1, 0)
    return any(event & select.POLLERR for _, event in output.poll(0))


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    """Separates our arguments from the program's, which are behind the ``--`` of ``gristmill env``."""
    if words[:1] != ["env"] or "--" not in words:
        return words, []
    place = words.index("--")
    return words[:place], words[place + 1 :]


def _run_provided(name: str, words: list[str]) -> int:
    """Runs the command that another distribution provides, or says which one to install."""
    from importlib.metadata import entry_points

    distribution, _ = _PROVIDED[name]
    for point in entry_points(group=COMMAND_GROUP, name=name):
        run: Callable[[list[str]], int] = point.load()
        return run(words)
    print(
        f"gristmill {name}: the command is not installed: pip install {distribution}",
        file=sys.stderr,
    )
    return 2


def _trace(parser: argparse.ArgumentParser) -> Run:
    from pathlib import Path

    parser.add_argument(
        "--sample", type=int, default=10_000, metavar="N", help="number of tasks to trace (10,000)"
    )
    parser.add_argument(
        "--record", type=Path, metavar="FILE", help="write the times of their steps to this file"
    )
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="write an HTML report to this file"
    )
    parser.add_argument(
        "--perfetto",
        type=Path,
        metavar="FILE",
        help="write a trace for ui.perfetto.dev to this file",
    )
    parser.add_argument(
        "program",
        help="a Python file, a command that is a Python file, -- -m MODULE, or a file that --record has written",
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


#: Commands by name: the function that prepares the parser, and the help text.
_COMMANDS: dict[str, tuple[Callable[[argparse.ArgumentParser], Run], str]] = {
    "trace": (_trace, "run a program and show where the time of its tasks goes"),
    "profile": (_profile, "run a program and show where the time of all its threads goes"),
    "node": (_node, "offer this node's workers to a client"),
    "key": (_key, "make the keys of a client and its nodes"),
    "top": (_top, "show the executors of running programs"),
    "doctor": (_doctor, "check what works on this machine"),
    "env": (_env, "show what programs need on other nodes, and make images of environments"),
}
#: Commands of other distributions by name: the distribution, and the help text.
_PROVIDED = {
    "bench": ("gristmill-bench", "measure task engines: applications on any executor"),
}


if __name__ == "__main__":
    sys.exit(main())
