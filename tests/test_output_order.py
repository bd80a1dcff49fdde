"""All that a task writes to the standard streams is out, in order, before its result is there."""

from __future__ import annotations

import fcntl
import io
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import writers
from gristmill import Executor, WorkerLostError, _native, _output

#: Time after which a worker waits no longer until text is out, seconds.
GIVE_UP_S = 0.2
#: Each kind of task, and what it writes.
WRITES: dict[Callable[..., Any], str] = {
    writers.line: "line\n",
    writers.part: "part ",
    writers.flushed_part: "flushed ",
    writers.printed_part: "printed ",
    writers.bytes_part: "bytes ",
    writers.mixed: "out 0\nerror 0\nout 1\nerror 1\nout 2\nerror 2\n",
    writers.mixed_descriptors: "error 0\nout 0\nerror 1\nout 1\nerror 2\nout 2\n",
    writers.descriptor: "descriptor\n",
    writers.c_library: "C library ",
    writers.program: "program ",
    writers.fork: "fork\n",
    writers.thread: "thread\n",
    writers.huge: "x" * 300_000 + "\n",
}


@contextmanager
def streams(target: int) -> Iterator[None]:
    """Makes a descriptor the standard output and error of this process."""
    former = [os.dup(1), os.dup(2)]
    try:
        os.dup2(target, 1)
        os.dup2(target, 2)
        yield
    finally:
        for number, descriptor in enumerate(former, 1):
            os.dup2(descriptor, number)
            os.close(descriptor)


class Log:
    """A file that is both streams of the workers of an executor."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0

    @contextmanager
    def executor(self, workers: int = 1) -> Iterator[Executor]:
        """Gives an executor whose workers are up."""
        target = os.open(self._path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        try:
            with streams(target):
                executor = Executor(workers)
                executor.submit(len, "").result()
        finally:
            os.close(target)
        with executor:
            yield executor

    def read_after(self, executor: Executor, act: Callable[[], object]) -> str:
        """Acts until its tasks have ended; returns what was out then.

        On a busy machine the keeper may not run in time, and a worker gives up waiting: the action is repeated then.
        """
        while True:
            begun = time.monotonic()
            act()
            if time.monotonic() < begun + GIVE_UP_S:
                return self.read()
            executor.submit(writers.settle).result()
            self.read()

    def read(self) -> str:
        """Returns what was written since the last call."""
        text = self._path.read_bytes()[self._read :]
        self._read += len(text)
        return text.decode()


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "log")


@pytest.mark.interpreter
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_all_that_a_task_writes_precedes_its_result(
    log: Log, monkeypatch: pytest.MonkeyPatch, unbuffered: str
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    wrong = {}
    with log.executor() as executor:
        for function, text in WRITES.items():
            for _ in range(3):
                found = log.read_after(executor, lambda one=function: executor.submit(one).result())
                if found != text:
                    wrong[function.__name__] = found[:100]
    assert not wrong


def test_text_of_a_task_that_raises_or_dies_precedes_the_error(log: Log) -> None:
    with log.executor() as executor:

        def fail() -> None:
            assert isinstance(executor.submit(writers.raise_with_text).exception(), ValueError)

        assert log.read_after(executor, fail) == "raises "
        error = executor.submit(writers.last_words, "last words").exception()
        assert log.read() == "last words"
        assert isinstance(error, WorkerLostError)
        assert "last words" in str(error)


def test_text_of_a_batch_precedes_its_results(log: Log) -> None:
    with log.executor(2) as executor:
        for count in (1, 100, 500):
            items = range(count)
            text = log.read_after(executor, lambda of=items: list(executor.map(writers.say, of)))
            assert sorted(map(int, text.split())) == list(items)


def test_text_is_noted_once_it_is_in_the_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    buffer = _output._Buffer(raw)
    # The end of a task does this once there is a note, perhaps at the same moment.
    monkeypatch.setattr(_native, "note_text", buffer.flush)
    buffer.write(b"text")
    assert raw.getvalue() == b"text"


def test_a_task_may_close_or_replace_its_standard_error(log: Log) -> None:
    with log.executor() as executor:
        for function in (writers.elsewhere, writers.closed):
            for _ in range(2):
                executor.submit(function).exception()
                executor.submit(writers.printed_part).result()
                assert log.read() == "printed "


def test_tasks_end_while_the_keeper_is_stopped(log: Log) -> None:
    with log.executor() as executor:
        keeper = executor.submit(writers.keeper).result()
        os.kill(keeper, signal.SIGSTOP)
        try:
            for _ in range(3):
                executor.submit(writers.line).result()
        finally:
            os.kill(keeper, signal.SIGCONT)
        found = ""
        while found != "line\n" * 3:
            found += log.read()
        executor.submit(writers.printed_part).result()
        assert log.read() == "printed "


def test_tasks_end_while_no_process_reads_standard_error() -> None:
    reader, writer = os.pipe()
    os.write(writer, bytes(fcntl.fcntl(writer, fcntl.F_GETPIPE_SZ)))
    with streams(writer):
        executor = Executor(1)
        executor.submit(len, "").result()
    os.close(writer)
    with executor, open(reader, "rb", buffering=0) as stream:
        for _ in range(3):
            executor.submit(writers.line).result()
        rest = b""
        while not rest.endswith(b"line\n" * 3):
            rest += stream.read(1 << 16)
        executor.submit(writers.line).result()
        assert stream.read(1 << 16) == b"line\n"


def test_the_streams_are_of_the_usual_types_and_names(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)

    def describe() -> list[object]:
        import io
        import sys

        found: list[object] = []
        for stream in (sys.stdout, sys.stderr):
            assert type(stream) is io.TextIOWrapper
            assert isinstance(stream.buffer, io.BufferedWriter)
            assert isinstance(stream.buffer.raw, io.FileIO)
            found += [stream.name, stream.mode, stream.fileno(), stream.line_buffering]
        assert (sys.__stdout__, sys.__stderr__) == (sys.stdout, sys.stderr)
        return found

    with log.executor() as executor:
        found = executor.submit(describe).result()
    assert found == ["<stdout>", "w", 1, True, "<stderr>", "w", 2, True]
