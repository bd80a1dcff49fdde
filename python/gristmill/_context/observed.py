"""What a program really imports and reads, seen in a run of it.

The run is the program's own, in the interpreter and the environment of this process; processes that it starts are seen,
too, workers of an executor among them. Not seen are files that compiled code opens without the interpreter's help, and
Python processes that are told to ignore their environment (``-E``, ``-I``, ``-S``).
"""

from __future__ import annotations

import ast
import dataclasses
import os
import subprocess
import sys
import tempfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "observing")
#: Calls one function, which comes pickled on standard input, behind the path that it is found on.
_CALL = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "function, args = pickle.load(sys.stdin.buffer); function(*args)"
)


@dataclasses.dataclass(frozen=True)
class Input:
    """A file that was there before the run, and was read in it."""

    path: str
    size: int


@dataclasses.dataclass(frozen=True)
class Observed:
    """What was seen in a run."""

    #: Modules that were looked for, whether they were found or not, in order.
    modules: tuple[str, ...]
    inputs: tuple[Input, ...]
    #: The exit status of the program; negative: the signal that ended it.
    status: int


def of_program(
    program: str, arguments: Sequence[str] = (), folders: Sequence[str] = ()
) -> Observed:
    """Runs a program; ``folders`` are those besides the working directory whose files count as data.

    What it prints goes to standard error.
    """
    return _observe([sys.executable, program, *arguments], None, folders)


def of_call(
    function: Callable[..., Any], args: Sequence[Any] = (), folders: Sequence[str] = ()
) -> Observed:
    """Runs one call of a function, which goes to its process by value if need be."""
    import cloudpickle

    given = cloudpickle.dumps(sys.path) + cloudpickle.dumps((function, tuple(args)))
    return _observe([sys.executable, "-c", _CALL], given, folders)


def _observe(command: list[str], given: bytes | None, folders: Sequence[str]) -> Observed:
    with tempfile.NamedTemporaryFile(prefix="gristmill-observed-") as log:
        environment = {**os.environ, "GRISTMILL_OBSERVED": log.name}
        later = [environment["PYTHONPATH"]] if environment.get("PYTHONPATH") else []
        environment["PYTHONPATH"] = os.pathsep.join([_FOLDER, *later])
        # Flushed first: the child writes to the same places.
        sys.stdout.flush()
        ended = subprocess.run(command, input=given, env=environment, stdout=2, check=False)
        lines = list(_parsed(log.read()))
    modules = dict.fromkeys(what for how, what in lines if how == "module")
    within = [os.path.abspath(folder) for folder in [".", *folders]]
    inputs = tuple(_inputs(lines, within))
    return Observed(tuple(modules), inputs, ended.returncode)


def _parsed(text: bytes) -> Iterator[tuple[str, str]]:
    """Each line of a log; those that are none are left out, since anybody may have written them."""
    for line in text.decode("ascii", "replace").split("\n"):
        how, _, what = line.partition(" ")
        try:
            value = ast.literal_eval(what)
        except (SyntaxError, ValueError):
            continue
        if isinstance(value, str):
            yield how, value


def _inputs(lines: Iterable[tuple[str, str]], within: list[str]) -> Iterator[Input]:
    """Data files that were read before anybody had written them."""
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
