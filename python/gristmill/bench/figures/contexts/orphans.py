"""Which processes a Parsl program has with our executor, and what is left of them when the program is gone."""

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

from gristmill.bench import config
from gristmill.bench.errors import BenchError
from gristmill.bench.executors.base import scratch
from gristmill.bench.figures.contexts import program
from gristmill.bench.figures.data import Data
from gristmill.bench.figures.figure import Figure, Relation
from gristmill.bench.figures.session import Case, Sample, Session

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
#: How long processes have to go after the program, seconds.
GRACE_S = 5.0
_START_MAX_S = 90.0
#: After this long a process that was killed waits for something that nobody here can give.
_KILL_MAX_S = 10.0
_RUNS = "while it runs"
_ENDED, _KILLED = f"{GRACE_S:g} s after its end", f"{GRACE_S:g} s after SIGKILL"
#: Is in the environment of the program, and so in that of all that it starts, whoever their parent is by then.
_MARK = "GRISTMILL_BENCH_PROGRAM"


class ProcessTree(Figure):
    """Processes of a Parsl program with two workers: while it runs, after it has ended, and after it was killed while
    each worker ran a task of a minute. They are found by a variable of their environment and as what was below the
    program, so that no new parent hides them. The paper's executor for Parsl has a manager and a factory beside the
    program, both of which look whether their parent is still there. Ours has three beside the program and its workers:
    one that starts and ends the others, one that workers are forked from, and a worker in reserve. Parsl's executor for
    many nodes is beside it: its processes notice by messages that do not come, and so later.
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
        """Runs each program twice: it ends, and is killed."""
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
    """Counts what a program with an executor has, and leaves."""
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
    """One that runs."""

    process: subprocess.Popen[bytes]
    #: The value of the mark of its processes.
    mark: str
    #: What was found of it so far: numbers of processes, and when each began, so that no later one is meant.
    _known: set[tuple[int, int]] = field(default_factory=set)

    def processes(self) -> list[int]:
        """Itself, and all that it has started, directly or not, as far as they live.

        Those are marked, or below such ones, or were when this was asked before.
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
        """Tells it to end, and waits. ``BenchError``: it failed, or stays."""
        assert self.process.stdin is not None, "the program has a pipe as its input"
        self.process.stdin.close()
        try:
            status = self.process.wait(_START_MAX_S)
        except subprocess.TimeoutExpired as error:
            raise BenchError(f"the program did not end within {_START_MAX_S:g} s") from error
        if status != 0:
            raise BenchError(f"the program ended with {status}")

    def left(self) -> int:
        """How many processes there are after their grace: none, as soon as there is none."""
        deadline = monotonic() + GRACE_S
        while (found := self.processes()) and monotonic() < deadline:
            sleep(0.02)
        return len(found)


def _living() -> Iterator[tuple[int, tuple[int, int]]]:
    """All processes but those that have ended and are not yet reaped: the parent of each, and when it began."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text(errors="replace")
        except OSError:
            continue
        # The name in parentheses may hold anything: what follows it are the third field and those after it.
        fields = stat.rpartition(")")[2].split()
        if fields[0] != "Z":
            yield int(entry.name), (int(fields[1]), int(fields[19]))


def _environment(pid: int) -> bytes:
    """That of a process; nothing of one that is gone, or of somebody else."""
    try:
        return Path("/proc", str(pid), "environ").read_bytes()
    except OSError:
        return b""


@contextmanager
def started(table: dict[str, Any], *words: str) -> Iterator[Program]:
    """Starts a program with an executor, and ends whatever is left of it. ``BenchError``: it did not come up."""
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
    """Kills what is left, so that nothing stays whatever the executor does."""
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
