"""The processes that a Parsl program has with each executor, and those that remain when the program is gone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from select import select
from time import monotonic, sleep
from typing import Any

from gristmill_bench import config
from gristmill_bench.errors import BenchError
from gristmill_bench.executors.base import scratch
from gristmill_bench.figures.contexts import program
from gristmill_bench.figures.data import Data
from gristmill_bench.figures.figure import Figure, Relation
from gristmill_bench.figures.session import Case, Sample, Session

_WORKERS = 2
_UNDER_PARSL, _UNDER_OURS, _HTEX = (
    "Gristmill's executor, Parsl's kernel",
    "Gristmill's executor and kernel",
    "Parsl's executor and kernel",
)
_EXECUTORS: dict[str, dict[str, Any]] = {
    _UNDER_PARSL: {"name": "gristmill-parsl", "kernel": "parsl", "workers": _WORKERS},
    _UNDER_OURS: {"name": "gristmill-parsl", "kernel": "gristmill", "workers": _WORKERS},
    _HTEX: {"name": "parsl", "workers": _WORKERS},
}
#: Seconds that processes have to end after the program.
GRACE_S = 5.0
_START_MAX_S = 90.0
#: Seconds after which a killed process that still exists cannot be ended from here.
_KILL_MAX_S = 10.0
_RUNS = "while it runs"
_ENDED, _KILLED = f"{GRACE_S:g} s after its end", f"{GRACE_S:g} s after SIGKILL"
#: A variable in the environment of the program. All processes that it starts inherit it and keep it after reparenting.
_MARK = "GRISTMILL_BENCH_PROGRAM"


class ProcessTree(Figure):
    """Processes of a Parsl program with two workers: while it runs, after it has ended, and after it was killed while
    each worker ran a task of a minute. Processes count if a variable of their environment marks them or if they were
    below the program, so that a new parent does not hide them. The paper's executor for Parsl has a manager and a
    factory beside the program, both of which check that their parent still exists. Gristmill's has three processes
    beside the program and its workers: one that starts and ends the others, one that workers are forked from, and a
    spare worker. Parsl's executor for many nodes is shown for comparison: its processes notice the end of the program
    by missing messages, and therefore later.
    """

    key = "contexts-3.6"
    source = "Function contexts, section 3.6"
    title = "Processes of a Parsl program, and what is left of them"
    across = "when"
    upward = "processes"
    form = "table"
    relations = (
        Relation(
            "besides the program and its workers there are few processes: at most three (paper: two)",
            lambda data: _few(data),
        ),
        Relation("a program that ends leaves none", lambda data: _none(data, _ENDED)),
        Relation("a program that is killed leaves none", lambda data: _none(data, _KILLED)),
    )

    def measure(self, session: Session) -> Data:
        """Runs each program twice: one ends by itself, the other is killed."""
        data = self.empty()
        cases = []
        for name, table in _EXECUTORS.items():
            try:
                config.resolve({"app": {"name": "synthetic"}, "executor": table})
            except BenchError as error:
                data.missing[name] = str(error)
            else:
                cases.append(Case(name, "all", partial(counted, name, table)))
        return session.turns(data, cases)


def counted(name: str, table: dict[str, Any]) -> Iterator[Sample]:
    """Counts the processes of a program with an executor, and those that it leaves."""
    with started(table) as run:
        yield Sample(name, _RUNS, float(len(run.processes())))
        run.end()
        yield Sample(name, _ENDED, float(run.left()))
    with started(table, "busy") as run:
        run.process.kill()
        run.process.wait()
        yield Sample(name, _KILLED, float(run.left()))


@dataclass
class Program:
    """A running program."""

    process: subprocess.Popen[bytes]
    #: The value of the variable that marks its processes.
    mark: str
    #: The processes found so far: process id and start time, so that a reused process id does not count.
    _known: set[tuple[int, int]] = field(default_factory=set)

    def processes(self) -> list[int]:
        """Returns the program and all living processes that it has started, directly or indirectly.

        These are marked, or descend from marked processes, or were found by an earlier call.
        """
        wanted = f"{_MARK}={self.mark}".encode()
        there = dict(_living())
        found = {
            pid
            for pid, (_, begun) in there.items()
            if (pid, begun) in self._known or wanted in _environment(pid).split(b"\0")
        }
        while more := {pid for pid, (parent, _) in there.items() if parent in found} - found:
            found |= more
        self._known |= {(pid, there[pid][1]) for pid in found}
        return sorted(found)

    def end(self) -> None:
        """Closes the program's input, which ends it, and waits. Raises ``BenchError`` if it fails or does not end."""
        assert self.process.stdin is not None, "the program has a pipe as its input"
        self.process.stdin.close()
        try:
            status = self.process.wait(_START_MAX_S)
        except subprocess.TimeoutExpired as error:
            raise BenchError(f"the program did not end within {_START_MAX_S:g} s") from error
        if status != 0:
            raise BenchError(f"the program ended with {status}")

    def left(self) -> int:
        """Returns the number of processes that remain after the grace period; returns at once when there are none."""
        deadline = monotonic() + GRACE_S
        while (found := self.processes()) and monotonic() < deadline:
            sleep(0.02)
        return len(found)


def _living() -> Iterator[tuple[int, tuple[int, int]]]:
    """Yields all processes except zombies, with the parent and start time of each."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text(errors="replace")
        except OSError:
            continue
        # The name in parentheses may contain anything; the third and later fields follow it.
        fields = stat.rpartition(")")[2].split()
        if fields[0] != "Z":
            yield int(entry.name), (int(fields[1]), int(fields[19]))


def _environment(pid: int) -> bytes:
    """Returns the environment of a process; empty if the process is gone or belongs to another user."""
    try:
        return Path("/proc", str(pid), "environ").read_bytes()
    except OSError:
        return b""


@contextmanager
def started(table: dict[str, Any], *words: str) -> Iterator[Program]:
    """Starts a program with an executor; kills what is left of it afterwards.

    Raises ``BenchError`` if the program does not start.
    """
    mark = os.urandom(8).hex()
    with scratch() as folder:
        signs, log = Path(folder, "signs"), Path(folder, "log")
        signs.mkdir()
        command = [sys.executable, "-c", program.COMMAND]
        with log.open("wb") as sink:
            process = subprocess.Popen(
                [*command, json.dumps(table), str(signs), *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=sink,
                env=os.environ | {_MARK: mark, "TMPDIR": folder},
            )
        run = Program(process, mark)
        try:
            assert process.stdout is not None, "the program has a pipe as its output"
            is_heard = bool(select([process.stdout], [], [], _START_MAX_S)[0])
            if not is_heard or process.stdout.readline() != b"ready\n":
                said = log.read_text(errors="replace").strip().splitlines()[-1:]
                raise BenchError(f"a program with {table['name']} did not come up: {said}")
            run.processes()
            yield run
        finally:
            _clear(run)


def _clear(run: Program) -> None:
    """Kills the processes that are left, so that none stays, whatever the executor does."""
    end = monotonic() + _KILL_MAX_S
    while (found := run.processes()) and monotonic() < end:
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        run.process.poll()
        sleep(0.01)
    run.process.wait()
    for pipe in (run.process.stdin, run.process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()


def _few(data: Data) -> tuple[bool, str]:
    names = (_UNDER_PARSL, _UNDER_OURS)
    others = [data.at(name, _RUNS) - 1 - _WORKERS for name in names]
    return max(others) <= 3, ", ".join(f"{number:g} more" for number in others)


def _none(data: Data, when: str) -> tuple[bool, str]:
    left = [data.at(name, when) for name in (_UNDER_PARSL, _UNDER_OURS)]
    return max(left) == 0, ", ".join(f"{number:g}" for number in left)
