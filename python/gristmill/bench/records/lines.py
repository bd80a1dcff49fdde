"""Records as lines of JSON, with the fields of TaPS: whoever reads its files can read these."""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from gristmill.bench.interfaces import Future, Records
from gristmill.bench.records.base import RecordsPlugin

if TYPE_CHECKING:
    from gristmill.bench.call import Answer
    from gristmill.bench.engine import TaskFuture

#: Records that are kept before they are written: what is written in between is measured with the tasks.
_KEPT_MAX = 100_000

#: What is kept of a task: name, number, parents, when it was submitted and received, and its end.
_Kept = tuple[str, int, tuple[int, ...], float, float, Any]


class Failure(msgspec.Struct):
    """What a task has raised."""

    type: str
    message: str
    traceback: str


class Execution(msgspec.Struct):
    """Where a task ran, and when each step began and ended, seconds since the epoch."""

    hostname: str
    execution_start_time: float
    execution_end_time: float
    task_start_time: float
    task_end_time: float
    input_transform_start_time: float
    input_transform_end_time: float
    result_transform_start_time: float
    result_transform_end_time: float


class Record(msgspec.Struct):
    """A task."""

    task_id: str
    name: str
    parent_task_ids: list[str]
    submit_time: float
    received_time: float
    success: bool
    exception: Failure | None
    execution: Execution | None


class JsonLines(RecordsPlugin):
    """A line of JSON for each task that has ended."""

    file: str = "tasks.jsonl"

    def open(self, folder: Path) -> Records:
        """Makes the file."""
        return _Lines(open(folder / self.file, "wb"))


class _Lines:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._lock = Lock()
        self._kept: list[_Kept] = []

    def note(self, name: str, task: TaskFuture[Any], future: Future, received: float) -> None:
        """Keeps what is to be written of it, and not what it has returned."""
        try:
            answer: Answer = future.result()
            end: Any = (answer.host, answer.times)
        except BaseException as error:
            end = error
        self._kept.append((name, task.number, task.parents, task.submitted, received, end))
        if len(self._kept) >= _KEPT_MAX:
            self._write()

    def close(self) -> None:
        self._write()
        self._file.close()

    def _write(self) -> None:
        with self._lock:
            kept, self._kept = self._kept, []
            self._file.write(msgspec.json.Encoder().encode_lines(map(_record, kept)))


def _record(kept: _Kept) -> Record:
    name, number, parents, submitted, received, end = kept
    failure = execution = None
    if isinstance(end, BaseException):
        failure = Failure(type(end).__name__, str(end), str(end.__cause__ or ""))
    else:
        host, (begun, ready, returned, sent) = end
        execution = Execution(host, begun, sent, ready, returned, begun, ready, returned, sent)
    return Record(
        str(number),
        name,
        list(map(str, parents)),
        submitted,
        received,
        failure is None,
        failure,
        execution,
    )
