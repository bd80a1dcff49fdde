"""The first steps of a profile's forked processes before they execute their programs: the guard, and py-spy."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from gristmill import _descent, _starting


class NeverReturning:
    """A context that ends a forked process at its exit in any case."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _type: object, error: BaseException | None, _where: object) -> None:
        if error is not None:
            sys.stderr.write(f"gristmill profile: {error}\n")
        os._exit(1)


def start_guard(command: list[str], inherited: tuple[int, int], reports: int) -> int:
    """Forks the guard, which starts the program and reports how it ended. Returns the guard's process id."""
    guard = os.fork()
    if guard:
        return guard
    with NeverReturning():
        _descent.adopt_orphans()
        program = os.fork()
        if program == 0:
            for descriptor in inherited:
                os.set_inheritable(descriptor, True)
            os.execve(command[0], command, {**os.environ, **_starting.variables()})
        for descriptor in inherited:
            os.close(descriptor)
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        os.write(reports, f"{os.getpid()} {program}\n".encode())
        while True:
            ended, status = os.wait()
            if ended == program:
                os.write(reports, f"{status}\n".encode())
                os._exit(0)


def become_sampler(command: list[str], ready_from: int, log: Path) -> None:
    """Waits until the program is ready and becomes py-spy, in a session that the terminal's signals do not reach."""
    if not os.read(ready_from, 1):
        os._exit(1)
    os.setsid()
    _descent.end_with_parent(signal.SIGINT)
    nowhere = os.open(os.devnull, os.O_RDWR)
    sink = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for target, source in ((0, nowhere), (1, sink), (2, sink)):
        os.dup2(source, target)
    os.execv(command[0], command)
