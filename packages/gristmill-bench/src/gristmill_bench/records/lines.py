"""Records as lines of JSON, with the fields of TaPS: programs that read its files can read these."""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from typing import BinaryIO

import msgspec

from gristmill_bench.ended import Ended, Failure
from gristmill_bench.interfaces import Records
from gristmill_bench.records.base import OwnFile, RecordsPlugin

#: Records that are encoded at once: few enough to stay in a cache.
_PART = 500
#: Records that are kept before they are written; writing during a run is measured with the tasks.
_KEPT_MAX = 100_000


class Execution(msgspec.Struct, gc=False, omit_defaults=True):
    """Machine and process of a task, and begin and end of each step, in seconds since the epoch."""

    hostname: str
    process: int
    execution_start_time: float
    execution_end_time: float
    task_start_time: float
    task_end_time: float
    input_transform_start_time: float
    input_transform_end_time: float
    result_transform_start_time: float
    result_transform_end_time: float
    #: Group of the worker; present only if the executor has groups.
    group: str = ""


class Record(msgspec.Struct, gc=False, omit_defaults=True):
    """Record of a task."""

    task_id: str
    name: str
    parent_task_ids: tuple[str, ...]
    submit_time: float
    received_time: float
    success: bool
    exception: Failure | None
    execution: Execution | None
    #: Bytes of the pickled result; ``None`` if sizes are not recorded.
    result_size: int | None = None


class JsonLines(RecordsPlugin):
    """A line of JSON for each task that has ended."""

    file: OwnFile = "tasks.jsonl"

    def open(self, folder: Path) -> Records:
        """Makes the file."""
        return _Lines(open(folder / self.file, "wb"))


class _Lines:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._lock = Lock()
        self._kept: list[Ended] = []

    def note(self, task: Ended) -> None:
        self._kept.append(task)
        if len(self._kept) >= _KEPT_MAX:
            self._write()

    def close(self) -> None:
        self._write()
        self._file.close()

    def _write(self) -> None:
        with self._lock:
            # Other threads may append to the list meanwhile, and their records stay.
            kept = self._kept[:]
            del self._kept[: len(kept)]
            encoder = msgspec.json.Encoder()
            for first in range(0, len(kept), _PART):
                part = kept[first : first + _PART]
                self._file.write(encoder.encode_lines(map(_record, part)))


def _record(task: Ended) -> Record:
    execution = None
    if task.error is None:
        begun, ready, returned, put = task.begun, task.ready, task.returned, task.put
        execution = Execution(
            task.host,
            task.process,
            begun,
            put,
            ready,
            returned,
            begun,
            ready,
            returned,
            put,
            task.group,
        )
    return Record(
        str(task.number),
        task.name,
        tuple(map(str, task.parents)) if task.parents else (),
        task.submitted,
        task.received,
        task.error is None,
        task.error,
        execution,
        task.size,
    )
