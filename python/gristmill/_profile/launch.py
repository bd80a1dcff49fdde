"""Execution of a program under py-spy, sampled until it ends.

There are four processes, each the child of the one before:

- *profiler*, this process: reads ``/proc`` of all processes below it;
- *sampler*: py-spy. Without privileges a kernel may let only ancestors inspect a process (Yama's ``ptrace_scope`` 1),
  so it must be an ancestor of the program;
- *guard*: a Python process that only waits. It becomes the parent of orphaned processes, such as the managers of
  Parsl's providers. py-spy samples the guard and all below it, and so sees these too;
- *program*: waits until it is sampled, and then runs as it would by itself, in the terminal's foreground.
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

from gristmill import _descent, _starting
from gristmill._profile import permission
from gristmill._profile.forks import NeverReturning, become_sampler, start_guard
from gristmill._profile.kernel import Watch
from gristmill._profile.permission import CannotProfile

#: The time limits for py-spy to start sampling, and to write its results, seconds.
_START_S, _END_S = 60.0, 60.0
#: The lowest rate of samples of ``/proc``, per second. These samples stop no process.
_KERNEL_RATE = 20
#: The time between two searches for new processes and threads, seconds.
_FIND_S = 0.1
#: The factor between the duration of a sample or search and the least pause after it, for about 5 % of a core.
_REST = 20
#: The text that py-spy prints once it samples.
_LOOKS = "Sampling process"


@dataclass(frozen=True)
class Looking:
    """The options for sampling a program."""

    #: Samples of py-spy a second.
    rate: int = 20
    #: True if native frames are read, for which each process stops for a moment.
    is_native: bool = False
    #: The number of tasks whose timings are recorded; 0 for none.
    sample: int = 0


@dataclass
class Seen:
    """The results of a run."""

    status: int
    seconds: float
    watch: Watch
    #: The lines of py-spy's output.
    stacks: list[str]
    #: The notes that the program's process wrote, if it came to its end.
    notes: dict[str, Any] | None
    #: The totals that py-spy printed at the end.
    said: str
    #: The start of the run, on the monotonic clock.
    begun: float
    #: The process id of the program.
    program: int
    #: The ids of processes that only serve the profile.
    own: frozenset[int]


def run(program: Sequence[str], looking: Looking, folder: Path) -> Seen:
    """Runs a program and samples it; files go to the folder.

    :raises CannotProfile: sampling is not permitted; the program has not begun then.
    """
    spy = permission.sampler()
    notes, stacks, log = folder / "notes.json", folder / "stacks.raw", folder / "sampler.log"
    _descent.adopt_orphans()
    started = _Started(spy, program, looking, notes, stacks, log)
    # A terminal interrupts all processes: the program decides how to react.
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
    """Does nothing. A handler is needed instead of SIG_IGN, which started programs would inherit."""


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
        self._reports_from, reports = os.pipe()
        ready_from, ready = os.pipe()
        go_from, self._go = os.pipe()
        instructions = {"ready": ready, "go": go_from, "notes": str(notes)}
        instructions |= {"sample": looking.sample, "collects": True}
        command = _starting.command(
            "gristmill._profile.program", json.dumps(instructions), *program, has_flags=False
        )
        options = ["--subprocesses", "--idle", "--threads", "--function", "--full-filenames"]
        options += ["--native" if looking.is_native else "--nonblocking"]
        options += ["--rate", str(looking.rate), "--format", "raw", "--output", str(stacks)]
        sys.stdout.flush()
        sys.stderr.flush()
        self._sampler = os.fork()
        if self._sampler == 0:
            with NeverReturning():
                os.close(self._go)
                os.close(self._reports_from)
                guard = start_guard(command, (ready, go_from), reports)
                for descriptor in (ready, go_from, reports):
                    os.close(descriptor)
                become_sampler([spy, "record", "--pid", str(guard), *options], ready_from, log)
        for descriptor in (reports, ready, ready_from, go_from):
            os.close(descriptor)
        self._sampler_ended = os.pidfd_open(self._sampler)
        self._told = b""
        self._guard, self.program = (int(word) for word in self._next_line().split())
        self._program_ended = os.pidfd_open(self.program)
        self.own = frozenset((os.getpid(), self._sampler, self._guard))

    def _next_line(self) -> bytes:
        """Returns the guard's next line. Raises ``CannotProfile`` if the guard is gone."""
        while b"\n" not in self._told:
            more = os.read(self._reports_from, 100)
            if not more:
                raise CannotProfile("the starter of the program has ended before the program began")
            self._told += more
        line, _, self._told = self._told.partition(b"\n")
        return line

    def pass_on(self, number: int, _frame: object) -> None:
        """Sends a signal to the program."""
        with suppress(ProcessLookupError):
            os.kill(self.program, number)

    def wait_until_looked_at(self) -> None:
        """Waits until py-spy samples, and lets the program begin."""
        end = monotonic() + _START_S
        while _LOOKS not in self._log_text():
            if _is_over(self._sampler_ended, 0.01) or monotonic() > end:
                raise CannotProfile(permission.reason_of(self._log_text()))
        with suppress(BrokenPipeError):
            os.write(self._go, b"g")

    def watch_until_end(self, tick_s: float) -> Watch:
        """Samples all threads until the program has ended."""
        watch, due, find_due = Watch(), monotonic(), 0.0
        while not _is_over(self._program_ended, max(0.0, due - monotonic())):
            now = monotonic()
            if now >= find_due:
                watch.find([one for one in _descent.descendants() if one not in self.own])
                found = monotonic()
                find_due, now = found + max(_FIND_S, (found - now) * _REST), found
            watch.look(now)
            looked = monotonic()
            # Missed samples are not made up for.
            due = max(due + tick_s, looked + (looked - now) * _REST)
        return watch

    def end(self) -> int:
        """Waits for the guard's report of the program's end and for py-spy's results. Returns the exit status."""
        status = os.waitstatus_to_exitcode(int(self._next_line()))
        if not _is_over(self._sampler_ended, _END_S):
            self._tell_sampler(signal.SIGINT)
            _is_over(self._sampler_ended, _END_S)
        return status

    def end_by_force(self) -> None:
        """Ends the remaining processes of the profile. Processes that the program has left behind are not touched."""
        if not _is_over(self._program_ended, 0):
            self.pass_on(signal.SIGKILL, None)
        self._tell_sampler(signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(self._sampler, 0)
        os.close(self._go)
        # The guard's parent is gone, so the guard is now a child of this process, or has been reaped.
        with suppress(ProcessLookupError):
            os.kill(self._guard, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(self._guard, 0)
        for descriptor in (self._reports_from, self._sampler_ended, self._program_ended):
            os.close(descriptor)

    def _tell_sampler(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._sampler_ended, number)

    def _log_text(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""


def _totals(log: str) -> str:
    """Returns the number of samples and of lost samples that py-spy prints at the end."""
    lines = [line for line in log.splitlines() if "Errors:" in line]
    return lines[-1].rpartition("'. ")[2].strip() if lines else ""


def _is_over(process: int, timeout_s: float) -> bool:
    """Waits for the end of a process, given its descriptor. Returns whether it has ended."""
    poller = select.poll()
    poller.register(process, select.POLLIN)
    return bool(poller.poll(timeout_s * 1000))
