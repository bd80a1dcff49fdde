"""The work of a worker for a bash app: it makes the command line, runs it and checks the result."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import TYPE_CHECKING, Any

from gristmill import _forked
from gristmill._held_interrupts import HeldInterrupts

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import IO


def run_command(function: Callable[..., Any], /, *arguments: Any, **named: Any) -> int:
    """Calls ``function`` for a command line, runs it with bash and returns 0.

    Raises ``BashExitFailure`` for any other exit code. Raises ``AppTimeout`` after ``walltime`` seconds, and kills the
    command and everything it started. Raises ``MissingOutputs`` when a file of ``outputs`` does not exist. Raises
    ``BadStdStreamFile``, ``BashAppNoReturn`` and ``AppBadFormatting``.
    """
    name = getattr(function, "__name__", "bash_app")
    command = _command_line(name, function, arguments, named)
    streams = {}
    try:
        for stream in ("stdout", "stderr"):
            streams[stream] = open_stream(stream, named.get(stream))
        if (log := streams["stderr"]) is not None:
            print(
                f"--> executable follows <--\n{command}\n--> end executable <--",
                file=log,
                flush=True,
            )
        exit_code = _run(name, command, streams, named.get("walltime"))
    finally:
        for opened in streams.values():
            if opened is not None:
                opened.close()
    _check(name, exit_code, named.get("outputs") or ())
    return exit_code


def _command_line(
    name: str, function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]
) -> str:
    try:
        command = _forked.guarded_with(function, arguments, named)
    except (AttributeError, IndexError) as error:
        from gristmill.parsl._kernel.errors import AppBadFormatting

        raise AppBadFormatting(
            f"App formatting failed for app '{name}' with {type(error).__name__}: {error}"
        ) from error
    if command is None:
        from gristmill.parsl._kernel.errors import BashAppNoReturn

        raise BashAppNoReturn(f"Bash app '{name}' returned None, not its command line")
    if not isinstance(command, str):
        raise ValueError(f"Expected a str for bash_app commandline, got {type(command)}")
    return command


def stream_name_and_mode(stream: str, wanted: Any) -> tuple[str, str]:
    """Returns the path and the mode of ``stdout=`` or ``stderr=``, which is a path, or a path with a mode.

    Raises ``BadStdStreamFile`` for anything else.
    """
    path, mode = wanted if isinstance(wanted, tuple) and len(wanted) == 2 else (wanted, "a+")
    if not isinstance(path, (str, os.PathLike)) or not isinstance(mode, str):
        from gristmill.parsl._kernel.errors import BadStdStreamFile

        raise BadStdStreamFile(f"{stream} must be a path or (path, mode), not {wanted!r}")
    return os.fspath(path), mode


def open_stream(stream: str, wanted: Any) -> IO[str] | None:
    """Opens the file of a standard stream and makes its folder. Returns ``None`` if no file is wanted.

    Raises ``BadStdStreamFile``.
    """
    if wanted is None:
        return None
    from gristmill.parsl._kernel.files import is_file

    # A file that is staged out is overwritten.
    path, mode = (
        (os.fspath(wanted), "w") if is_file(wanted) else stream_name_and_mode(stream, wanted)
    )
    try:
        if folder := os.path.dirname(path):
            os.makedirs(folder, exist_ok=True)
        return open(path, mode)
    except Exception as error:
        from gristmill.parsl._kernel.errors import BadStdStreamFile

        raise BadStdStreamFile(path) from error


def _run(name: str, command: str, streams: dict[str, Any], walltime: float | None) -> int:
    """Runs the command in its own process group, and kills the whole group if this call ends before the command."""
    interrupts = HeldInterrupts()
    try:
        process = subprocess.Popen(
            command, shell=True, executable="/bin/bash", close_fds=False, process_group=0, **streams
        )
    except Exception as error:
        from gristmill.parsl._kernel.errors import AppException

        interrupts.release()
        raise AppException(f"App {name} caught exception", error) from error
    try:
        interrupts.release()
        return process.wait(walltime)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
    from gristmill.parsl._kernel.errors import AppTimeout

    raise AppTimeout(f"App {name} exceeded walltime: {walltime} seconds")


def _check(name: str, exit_code: int, outputs: Any) -> None:
    if exit_code != 0:
        from gristmill.parsl._kernel.errors import BashExitFailure

        raise BashExitFailure(name, exit_code)
    missing = [file for file in outputs if not os.path.exists(file.filepath)]
    if missing:
        from gristmill.parsl._kernel.errors import MissingOutputs

        raise MissingOutputs(f"Missing outputs from app {name}", missing)
