"""Starts a program under py-spy and looks at it until it ends.

Four processes, each the child of the one before:

- *profiler*, this one: reads ``/proc`` of all below it;
- *sampler*: py-spy. Without privileges a kernel may let only ancestors look into a process (Yama's ``ptrace_scope``
  1), so that it is one;
- *guard*: a Python process that only waits, and becomes the parent of what loses its own, such as the managers of
  Parsl's providers: py-spy looks at it and all below, and so sees these too;
- *program*: waits until it is looked at, and then runs as it would by itself, in the terminal's foreground.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from gristmill import _descent
from gristmill._profile import permission
from gristmill._profile.forks import NeverReturning, become_sampler, start_guard
from gristmill._profile.kernel import Watch
from gristmill._profile.permission import CannotProfile

#: Seconds until py-spy looks, and until it has written what it saw.
_START_S, _END_S = 60.0, 60.0
#: Looks at ``/proc`` a second, at least: they stop nobody.
_KERNEL_RATE = 20
#: Between two searches for new processes and threads, seconds.
_FIND_S = 0.1
#: Of the time that a look or a search took, what passes at least before the next: some 5 % of a core.
_REST = 20
#: What py-spy says once it looks.
_LOOKS = "Sampling process"


@dataclass(frozen=True)
class Looking:
    """How a program is looked at."""

    #: Looks of py-spy a second.
    rate: int = 20
    #: Whether native frames are read, for which each process stops for a moment.
    is_native: bool = False
    #: Tasks whose tags are noted; 0: none.
    sample: int = 0


@dataclass
class Seen:
    """What was seen of a run."""

    status: int
    seconds: float
    watch: Watch
    #: py-spy's lines.
    stacks: list[str]
    #: What was noted inside of the program, if it came to its end.
    notes: dict[str, Any] | None
    #: What py-spy said of itself at the end.
    said: str
    #: When it began, by the monotonic clock.
    begun: float
    #: The number of the program.
    program: int
    #: The numbers of processes that only serve the profile.
    own: frozenset[int]


def run(program: Sequence[str], looking: Looking, folder: Path) -> Seen:
    """Runs a program and looks at it; files go to the folder.

    :raises CannotProfile: nobody may look at it; it has not begun then.
    """
    spy = permission.sampler()
    notes, stacks, log = folder / "notes.json", folder / "stacks.raw", folder / "sampler.log"
    _descent.adopt_orphans()
    started = _Started(spy, program, looking, notes, stacks, log)
    # A terminal interrupts all of them: the program answers.
    before = {one: signal.signal(one, _nothing) for one in (signal.SIGINT, signal.SIGQUIT)}
    for number in (signal.SIGTERM, signal.SIGHUP):
        before[number] = signal.signal(number, started.pass_on)
    try:
        started.wait_until_looked_at()
        begun = monotonic()
        watch = started.watch_until_end(1 / max(looking.rate, _KERNEL_RATE))
        seconds = monotonic() - begun
        status = started.end()
    finally:
        started.end_by_force()
        for number, handler in before.items():
            signal.signal(number, handler)
    lines = stacks.read_text("utf-8", "replace").splitlines() if stacks.exists() else []
    found = json.loads(notes.read_text()) if notes.exists() else None
    said = _totals(log.read_text(errors="replace"))
    return Seen(status, seconds, watch, lines, found, said, begun, started.program, started.own)


def _nothing(_signal: int, _frame: object) -> None:
    """A handler rather than an order to ignore: programs that are started would inherit that."""


class _Started:
    """The processes of a profile."""

    def __init__(
        self,
        spy: str,
        program: Sequence[str],
        looking: Looking,
        notes: Path,
        stacks: Path,
        log: Path,
    ) -> None:
        self._log = log
        self._told_from, told = os.pipe()
        ready_from, ready = os.pipe()
        go_from, self._go = os.pipe()
        orders = {"ready": ready, "go": go_from, "notes": str(notes)}
        orders |= {"sample": looking.sample, "collects": True}
        command = [sys.executable, "-m", "gristmill._profile.program", json.dumps(orders), *program]
        options = ["--subprocesses", "--idle", "--threads", "--function", "--full-filenames"]
        options += ["--native" if looking.is_native else "--nonblocking"]
        options += ["--rate", str(looking.rate), "--format", "raw", "--output", str(stacks)]
        sys.stdout.flush()
        sys.stderr.flush()
        self._sampler = os.fork()
        if self._sampler == 0:
            with NeverReturning():
                os.close(self._go)
                os.close(self._told_from)
                guard = start_guard(command, (ready, go_from), told)
                for descriptor in (ready, go_from, told):
                    os.close(descriptor)
                become_sampler([spy, "record", "--pid", str(guard), *options], ready_from, log)
        for descriptor in (told, ready, ready_from, go_from):
            os.close(descriptor)
        self._sampler_ended = os.pidfd_open(self._sampler)
        self._told = b""
        self._guard, self.program = (int(word) for word in self._next_line().split())
        self._program_ended = os.pidfd_open(self.program)
        self.own = frozenset((os.getpid(), self._sampler, self._guard))

    def _next_line(self) -> bytes:
        """What the guard says next; ``CannotProfile``: it is gone."""
        while b"\n" not in self._told:
            more = os.read(self._told_from, 100)
            if not more:
                raise CannotProfile("what starts the program has ended without it")
            self._told += more
        line, _, self._told = self._told.partition(b"\n")
        return line

    def pass_on(self, number: int, _frame: object) -> None:
        """Gives a signal to the program."""
        with suppress(ProcessLookupError):
            os.kill(self.program, number)

    def wait_until_looked_at(self) -> None:
        """Returns when py-spy looks, and lets the program begin."""
        end = monotonic() + _START_S
        while _LOOKS not in self._log_text():
            if _is_over(self._sampler_ended, 0.01) or monotonic() > end:
                raise CannotProfile(permission.reason_of(self._log_text()))
        with suppress(BrokenPipeError):
            os.write(self._go, b"g")

    def watch_until_end(self, tick_s: float) -> Watch:
        """Looks at all threads until the program has ended."""
        watch, due, find_due = Watch(), monotonic(), 0.0
        while not _is_over(self._program_ended, max(0.0, due - monotonic())):
            now = monotonic()
            if now >= find_due:
                watch.find([one for one in _descent.descendants() if one not in self.own])
                found = monotonic()
                find_due, now = found + max(_FIND_S, (found - now) * _REST), found
            watch.look(now)
            looked = monotonic()
            # What was missed is not made up for.
            due = max(due + tick_s, looked + (looked - now) * _REST)
        return watch

    def end(self) -> int:
        """Waits until the guard knows how the program has ended and py-spy has written; gives the exit status."""
        status = os.waitstatus_to_exitcode(int(self._next_line()))
        if not _is_over(self._sampler_ended, _END_S):
            self._tell_sampler(signal.SIGINT)
            _is_over(self._sampler_ended, _END_S)
        return status

    def end_by_force(self) -> None:
        """Ends what is left of them; what the program has left behind is its own affair."""
        if not _is_over(self._program_ended, 0):
            self.pass_on(signal.SIGKILL, None)
        self._tell_sampler(signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(self._sampler, 0)
        os.close(self._go)
        # Its parent is gone, so that it is now ours, or has been reaped.
        with suppress(ProcessLookupError):
            os.kill(self._guard, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(self._guard, 0)
        for descriptor in (self._told_from, self._sampler_ended, self._program_ended):
            os.close(descriptor)

    def _tell_sampler(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._sampler_ended, number)

    def _log_text(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""


def _totals(log: str) -> str:
    """What py-spy says of its looks at the end: how many there were, and how many were lost."""
    lines = [line for line in log.splitlines() if "Errors:" in line]
    return lines[-1].rpartition("'. ")[2].strip() if lines else ""


def _is_over(process: int, timeout_s: float) -> bool:
    """Waits for the end of a process of which this is the descriptor."""
    poller = select.poll()
    poller.register(process, select.POLLIN)
    return bool(poller.poll(timeout_s * 1000))
