"""Imports and reads of a program, observed in a real run.

The run uses the interpreter and the environment of this process. Processes that the program starts are observed too,
including the workers of an executor. Two things are not observed: files that compiled code opens without the
interpreter, and Python processes that ignore their environment (``-E``, ``-I``, ``-S``).
"""

from __future__ import annotations

import ast
import dataclasses
import os
import subprocess
import sys
import tempfile

from gristmill import _starting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "observing")
#: Program that calls one function. Standard input holds the pickled ``sys.path``, then the pickled function and
#: arguments. The working directory is on the path only if it is on the pickled one.
_CALL = (
    "import os, pickle, sys; "
    "os.environ.pop('GRISTMILL_START'); sys.path[:] = pickle.load(sys.stdin.buffer); "
    "function, args = pickle.load(sys.stdin.buffer); function(*args)"
)


@dataclasses.dataclass(frozen=True)
class Input:
    """A file that existed before the run and was read in it."""

    path: str
    size: int


@dataclasses.dataclass(frozen=True)
class Observed:
    """Observations of one run."""

    #: Modules that the program searched for, found or not, in order.
    modules: tuple[str, ...]
    inputs: tuple[Input, ...]
    #: Exit status of the program; a negative number is the signal that ended it.
    status: int


def of_program(
    program: str, arguments: Sequence[str] = (), folders: Sequence[str] = ()
) -> Observed:
    """Runs a program. Data files are those in the working directory and in ``folders``.

    The output of the program goes to standard error.
    """
    return _observe([_starting.interpreter(), program, *arguments], None, folders)


def of_call(
    function: Callable[..., Any], args: Sequence[Any] = (), folders: Sequence[str] = ()
) -> Observed:
    """Runs one call of a function, which is sent to the new process by value if necessary."""
    from gristmill import _pickling

    given = _pickling.dump_plain(sys.path) + _pickling.dump_plain((function, tuple(args)))
    return _observe([_starting.interpreter(), "-P", "-c", _CALL], given, folders)


def _observe(command: list[str], given: bytes | None, folders: Sequence[str]) -> Observed:
    with tempfile.NamedTemporaryFile(prefix="gristmill-observed-") as log:
        environment = {**os.environ, "GRISTMILL_OBSERVED": log.name}
        if given is not None:
            environment |= _starting.variables()
        later = [environment["PYTHONPATH"]] if environment.get("PYTHONPATH") else []
        environment["PYTHONPATH"] = os.pathsep.join([_FOLDER, *later])
        # The child writes to the same streams, so pending output is flushed first.
        sys.stdout.flush()
        ended = subprocess.run(command, input=given, env=environment, stdout=2, check=False)
        lines = list(_parsed(log.read()))
    modules = dict.fromkeys(what for how, what in lines if how == "module")
    within = [os.path.abspath(folder) for folder in [".", *folders]]
    inputs = tuple(_inputs(lines, within))
    return Observed(tuple(modules), inputs, ended.returncode)


def _parsed(text: bytes) -> Iterator[tuple[str, str]]:
    """Yields the valid lines of a log. Other processes may have written invalid lines, which are skipped."""
    for line in text.decode("ascii", "replace").split("\n"):
        how, _, what = line.partition(" ")
        try:
            value = ast.literal_eval(what)
        except (SyntaxError, ValueError):
            continue
        if isinstance(value, str):
            yield how, value


def _inputs(lines: Iterable[tuple[str, str]], within: list[str]) -> Iterator[Input]:
    """Yields the data files that were read before the run had written them."""
    own = [folder for folder in {sys.prefix, sys.base_prefix} if not _is_below(within[0], [folder])]
    seen: set[str] = set()
    for how, path in lines:
        if how == "module" or path in seen:
            continue
        seen.add(path)
        is_data = _is_below(path, within) and not _is_below(path, own)
        if how == "read" and is_data and os.path.isfile(path):
            yield Input(path, os.path.getsize(path))


def _is_below(path: str, folders: Iterable[str]) -> bool:
    return any(path.startswith(folder.rstrip(os.sep) + os.sep) for folder in folders)
