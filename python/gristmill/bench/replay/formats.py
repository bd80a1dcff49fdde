"""Files that runs are recorded in: our lines of JSON and TaPS's, WfFormat, and our traces."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from gristmill.bench.errors import BenchError
from gristmill.bench.replay.recording import Recording, Row, arrange

#: What is looked for in the folder of a run, the fullest first.
_FILES = ("tasks.jsonl", "workflow.json", "trace.json")
#: What is wrong with what is no JSON, or not of that kind, or no text, or nested too deeply.
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class _Execution(msgspec.Struct):
    task_start_time: float
    task_end_time: float


class _Line(msgspec.Struct):
    """What is needed of a line: TaPS has these fields too."""

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
    #: Ours only.
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
    """What tells documents apart."""

    workflow: msgspec.Raw = msgspec.Raw()
    traceEvents: list[dict[str, Any]] | None = None
    schemaVersion: str = ""


def read(path: Path) -> Recording:
    """The run that a folder or a file has; ``BenchError`` says what is wrong with it."""
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
    """Once for each change of the file: a comparison has many runs of one record."""
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
    """Of what has failed nobody knows how long it ran: it takes no time."""
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
    """WfFormat 1.5 and 1.6. A result is what a task has written; what no task wrote is nobody's."""
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
    """What several tasks have in common: many instances have the number of the task in its name."""
    return re.sub(r"[_.-]?(ID)?[0-9]+$", "", name) or name


def _ran(path: Path, name: str, runs: dict[str, float]) -> float:
    try:
        return runs[name]
    except KeyError:
        raise BenchError(f"{path}: task {name!r} is specified and was not executed") from None


def _of_trace(path: Path, events: list[dict[str, Any]]) -> Recording:
    """Traces of our records: a slice for each task, and in some of them one for its function."""
    try:
        slices = [(place, one) for place, one in enumerate(events) if _is_task(one)]
        rows = [_row(events, *one) for one in slices]
        # Times are from the first submission on.
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
    """A task, whose slice is at that place."""
    # Behind a task's slice come those of its steps: arguments, function, result.
    steps = events[place + 1 : place + 4]
    function = steps[1] if len(steps) > 1 and steps[1].get("name") == "function" else None
    is_its = function is not None and "args" not in function
    lasted = (function if is_its and function else event)["dur"] * 1e-6
    about = event["args"]
    if about.get("error") is not None:
        # The slice is as long as it was waited for: how long it ran nobody knows.
        lasted = 0.0
    parents = [str(one) for one in about["parents"]]
    return Row(str(about["task"]), str(event["name"]), lasted, parents)
