"""Records as a Parquet table, which pandas, DuckDB, Polars and others read: the fields of TaPS in columns.

Fields that are nested in lines of JSON are flat here, and typed. Numbers of tasks are integers. The columns of a task's
execution are null if it failed, those of its exception if it did not, and that of the worker's group without groups.
Apache's own library writes the file, because many libraries read Parquet and the format is intricate.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from threading import Lock
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

import gristmill
from gristmill_bench.ended import Ended
from gristmill_bench.interfaces import Records
from gristmill_bench.records.base import OwnFile, RecordsPlugin

#: Columns with their types, as pyarrow names them; times are seconds since the epoch. The type of a list's items is
#: behind the colon.
COLUMNS: tuple[tuple[str, str], ...] = (
    ("task_id", "int64"),
    ("name", "dictionary"),
    ("parent_task_ids", "list:int64"),
    ("submit_time", "float64"),
    ("received_time", "float64"),
    ("success", "bool_"),
    ("exception_type", "dictionary"),
    ("exception_message", "string"),
    ("exception_traceback", "string"),
    ("hostname", "dictionary"),
    ("process", "int64"),
    ("execution_start_time", "float64"),
    ("execution_end_time", "float64"),
    ("task_start_time", "float64"),
    ("task_end_time", "float64"),
    ("input_transform_start_time", "float64"),
    ("input_transform_end_time", "float64"),
    ("result_transform_start_time", "float64"),
    ("result_transform_end_time", "float64"),
    ("group", "dictionary"),
    ("result_size", "int64"),
)
_OF_EXCEPTION, _OF_EXECUTION = 3, 12


class Parquet(RecordsPlugin):
    """A Parquet table with a row for each task that has ended: for pandas, DuckDB and others."""

    needs: ClassVar[tuple[str, ...]] = ("pyarrow",)

    file: OwnFile = "tasks.parquet"
    #: Rows that are kept before they are written as one group; writing during a run is measured with the tasks.
    group: Annotated[int, Field(ge=1)] = 100_000
    compression: Literal["none", "snappy", "gzip", "zstd", "lz4"] = "zstd"

    def open(self, folder: Path) -> Records:
        """Makes the file. It can be read once it is closed: the index of its groups is written last."""
        return _Table(folder / self.file, self)


class _Table:
    def __init__(self, path: Path, plugin: Parquet) -> None:
        self._arrow = importlib.import_module("pyarrow")
        self._schema = self._arrow.schema(
            [self._arrow.field(name, self._type(kind)) for name, kind in COLUMNS],
            metadata={"created_by": f"gristmill bench {gristmill.__version__}"},
        )
        self._writer = importlib.import_module("pyarrow.parquet").ParquetWriter(
            path, self._schema, compression=plugin.compression
        )
        self._group = plugin.group
        self._lock = Lock()
        self._kept: list[Ended] = []

    def _type(self, kind: str) -> Any:
        name, _, item = kind.partition(":")
        if name == "dictionary":
            # Few distinct values: each is stored once a group.
            return self._arrow.dictionary(self._arrow.int32(), self._arrow.string())
        if item:
            return self._arrow.list_(self._type(item))
        return getattr(self._arrow, name)()

    def note(self, task: Ended) -> None:
        # The lock is needed on free-threaded interpreters, where a task could be appended to a list that was just
        # written.
        with self._lock:
            self._kept.append(task)
            if len(self._kept) >= self._group:
                self._write()

    def close(self) -> None:
        with self._lock:
            self._write()
            self._writer.close()

    def _write(self) -> None:
        kept, self._kept = self._kept, []
        if not kept:
            return
        columns = zip(*map(_row, kept), strict=True)
        arrays = [
            self._arrow.array(column, field.type)
            for column, field in zip(columns, self._schema, strict=True)
        ]
        table = self._arrow.Table.from_arrays(arrays, schema=self._schema)
        self._writer.write_table(table, row_group_size=len(kept))


def _row(task: Ended) -> tuple[Any, ...]:
    error = task.error
    known = (task.number, task.name, task.parents, task.submitted, task.received, error is None)
    if error is not None:
        raised = (error.type, error.message, error.traceback)
        return (*known, *raised, *(None,) * _OF_EXECUTION)
    begun, ready, returned, sent = task.times
    where = (task.host, task.process)
    times = (begun, sent, ready, returned, begun, ready, returned, sent)
    return (*known, *(None,) * _OF_EXCEPTION, *where, *times, task.group or None, task.size)
