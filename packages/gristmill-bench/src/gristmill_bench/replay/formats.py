"""File formats of recorded runs: JSON lines of Gristmill and of TaPS, WfFormat, and Gristmill's traces."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from gristmill_bench.errors import BenchError
from gristmill_bench.replay.recording import Recording, Row, arrange

#: Files that are looked for in the folder of a run, the most detailed first.
_FILES = ("tasks.jsonl", "workflow.json", "trace.json")
#: Errors of content that is not JSON, not of the expected structure, not text, or nested too deeply.
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class _Execution(msgspec.Struct):
    task_start_time: float
    task_end_time: float


class _Line(msgspec.Struct):
    """The required fields of a line; the records of TaPS have them too."""

    task_id: str
    name: str
    parent_task_ids: list[str]
    submit_time: float
    received_time: float
    success: bool
    execution: _Execution | None = None
    result_size: int | None = None


class _File(msgspec.Struct):
    id: str
    sizeInBytes: int


class _Specified(msgspec.Struct):
    id: str
    name: str
    parents: list[str]
    outputFiles: list[str] = []


class _Executed(msgspec.Struct):
    id: str
    runtimeInSeconds: float
    #: A field that only Gristmill writes.
    failed: bool = False


class _Specification(msgspec.Struct):
    tasks: list[_Specified]
    files: list[_File] = []


class _Run(msgspec.Struct):
    tasks: list[_Executed]
    makespanInSeconds: float | None = None


class _Workflow(msgspec.Struct):
    specification: _Specification
    execution: _Run | None = None


class _Document(msgspec.Struct):
    workflow: _Workflow


class _Kind(msgspec.Struct):
    """The fields that identify the format of a document."""

    workflow: msgspec.Raw = msgspec.Raw()
    traceEvents: list[dict[str, Any]] | None = None
    schemaVersion: str = ""


def read(path: Path) -> Recording:
    """Returns the run in a folder or file; raises ``BenchError`` if it cannot be read."""
    try:
        found = next((path / one for one in _FILES if (path / one).is_file()), None)
        if path.is_dir() and found is None:
            raise BenchError(f"{path} has no {', '.join(_FILES)}")
        file = found or path
        return _read(file, file.stat().st_mtime_ns)
    except OSError as error:
        raise BenchError(f"{path}: {error.strerror}") from error


@lru_cache(maxsize=4)
def _read(path: Path, _changed: int) -> Recording:
    """Reads a file once for each change of it, because a comparison replays the same record many times."""
    content = path.read_bytes()
    try:
        if path.suffix == ".jsonl":
            return _of_lines(path, content)
        kind = msgspec.json.decode(content, type=_Kind)
        if kind.workflow:
            return _of_workflow(path, kind.schemaVersion, content)
        if kind.traceEvents is not None:
            return _of_trace(path, kind.traceEvents)
    except _UNREADABLE as error:
        raise BenchError(f"{path}: {error}") from error
    raise BenchError(
        f"{path} is no recorded run: these are lines of JSON (tasks.jsonl), WfFormat and our traces"
    )


def _of_lines(path: Path, content: bytes) -> Recording:
    """Reads JSON lines. The duration of a failed task is unknown and taken as zero."""
    lines: list[_Line] = []
    for number, line in enumerate(content.splitlines(), 1):
        if not line.strip():
            continue
        try:
            lines.append(msgspec.json.decode(line, type=_Line))
        except _UNREADABLE as error:
            raise BenchError(f"{path}, line {number}: {error}") from error
    rows = [
        Row(
            line.task_id,
            line.name,
            0.0
            if line.execution is None
            else line.execution.task_end_time - line.execution.task_start_time,
            line.parent_task_ids,
            line.submit_time,
            line.result_size,
        )
        for line in lines
    ]
    begun = min((line.submit_time for line in lines), default=0.0)
    ended = max((line.received_time for line in lines), default=0.0)
    failed = sum(line.execution is None for line in lines)
    return arrange(path, rows, makespan=ended - begun, failed=failed)


def _of_workflow(path: Path, schema: str, content: bytes) -> Recording:
    """Reads WfFormat 1.5 and 1.6. The result of a task is the files it wrote; files without a writer are ignored."""
    if schema.split(".")[:2] not in (["1", "5"], ["1", "6"]):
        raise BenchError(f"{path} is of WfFormat {schema or '?'}; what can be read is 1.5 and 1.6")
    workflow = msgspec.json.decode(content, type=_Document).workflow
    if workflow.execution is None:
        raise BenchError(f"{path} describes a workflow that was not run: it has no execution")
    runs: dict[str, float] = {}
    for one in workflow.execution.tasks:
        if runs.setdefault(one.id, one.runtimeInSeconds) != one.runtimeInSeconds:
            raise BenchError(f"{path}: task {one.id!r} was executed twice")
    sizes = {file.id: file.sizeInBytes for file in workflow.specification.files}
    rows = [
        Row(task.id, _function(task.name), _ran(path, task.id, runs), task.parents, None, size)
        for task in workflow.specification.tasks
        for size in [sum(sizes.get(one, 0) for one in task.outputFiles) if sizes else None]
    ]
    failed = sum(one.failed for one in workflow.execution.tasks)
    return arrange(path, rows, makespan=workflow.execution.makespanInSeconds, failed=failed)


def _function(name: str) -> str:
    """Returns the function of a task: its name without the number that many instances append."""
    return re.sub(r"[_.-]?(ID)?[0-9]+$", "", name) or name


def _ran(path: Path, name: str, runs: dict[str, float]) -> float:
    try:
        return runs[name]
    except KeyError:
        raise BenchError(f"{path}: task {name!r} is specified and was not executed") from None


def _of_trace(path: Path, events: list[dict[str, Any]]) -> Recording:
    """Reads a trace of Gristmill's records: a slice for each task, and in some traces a slice for its function."""
    try:
        slices = [(place, one) for place, one in enumerate(events) if _is_task(one)]
        rows = [_row(events, *one) for one in slices]
        # Times count from the first submission.
        ended = max((one["ts"] + one["dur"] for _, one in slices), default=0.0) * 1e-6
        failed = sum(one["args"].get("error") is not None for _, one in slices)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise BenchError(f"{path} is no trace of our records: {error!r}") from error
    if not rows:
        raise BenchError(f"{path} is no trace of our records: it has no tasks")
    return arrange(path, rows, makespan=ended, failed=failed)


def _is_task(event: dict[str, Any]) -> bool:
    return event.get("ph") == "X" and "task" in event.get("args", {})


def _row(events: list[dict[str, Any]], place: int, event: dict[str, Any]) -> Row:
    """Returns the row of the task whose slice is at index ``place``."""
    # The slices of a task's steps follow that of the task: arguments, function, result.
    steps = events[place + 1 : place + 4]
    function = steps[1] if len(steps) > 1 and steps[1].get("name") == "function" else None
    is_its = function is not None and "args" not in function
    lasted = (function if is_its and function else event)["dur"] * 1e-6
    about = event["args"]
    if about.get("error") is not None:
        # The slice of a failed task covers the time of waiting for it; its duration is unknown.
        lasted = 0.0
    parents = [str(one) for one in about["parents"]]
    return Row(str(about["task"]), str(event["name"]), lasted, parents)
