"""Processes that user code forked, with ``os.fork`` or without it: each ends where it leaves that code.

Such a process is a copy of a worker, a zygote or a dispatcher thread and shares its rings and sockets, but must not act
as one. If it went on, it would run tasks, setups and callbacks a second time.
"""

from __future__ import annotations

import os

try:
    from gristmill import _native
except ImportError:  # where the engine does not work, and parts of the Parsl surface do
    _generation = os.getpid
else:
    _generation = _native.generation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, NoReturn, TypeVar

    T = TypeVar("T")


def process_generation() -> int:
    """Returns a number that a fork of this process changes."""
    number: int = _generation()
    return number


def guarded(function: Callable[..., T], *arguments: object) -> T:
    """Calls user code. A process that this code forks ends when it leaves the code."""
    return guarded_with(function, arguments, {})


def guarded_with(function: Callable[..., T], arguments: Sequence[Any], named: dict[str, Any]) -> T:
    """Calls user code as ``guarded`` does, with named arguments too."""
    here = _generation()
    try:
        result = function(*arguments, **named)
    except BaseException as error:
        if _generation() != here:
            leave(error)
        raise
    if _generation() != here:
        leave(None)
    return result


def leave(error: BaseException | None) -> NoReturn:
    """Ends this process: with 0, with the code of a ``SystemExit``, or with 1 and a traceback on standard error.

    Nothing else runs: the contents of handlers and buffers belong to the process that this one was forked from.
    """
    code = 1
    try:
        code = _code_of(error)
    finally:
        os._exit(code)


def _code_of(error: BaseException | None) -> int:
    """Returns the exit code, after printing the message or the traceback of the error."""
    if error is None:
        return 0
    if isinstance(error, SystemExit):
        code = error.code
        if code is None:
            return 0
        if isinstance(code, int):
            return code & 0xFF
        _write(f"{code}\n")
        return 1
    import traceback

    _write("".join(traceback.format_exception(error)))
    return 1


def _write(text: str) -> None:
    """Writes to standard error past ``sys.stderr``, whose buffer may hold text that the other process will write."""
    data = text.encode(errors="backslashreplace")
    while data:
        data = data[os.write(2, data) :]
