"""Records as one document, written when all tasks have ended: WfFormat, and a trace for Perfetto."""

from __future__ import annotations

import os
import platform
import re
from abc import abstractmethod
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

import gristmill
from gristmill import instruments
from gristmill_bench.ended import Ended
from gristmill_bench.interfaces import Records
from gristmill_bench.records.base import OwnFile, RecordsPlugin


class DocumentPlugin(RecordsPlugin):
    """A document of all tasks."""

    file: OwnFile

    def open(self, folder: Path) -> Records:
        """Makes the file, which is empty until the end."""
        path = folder.resolve() / self.file
        path.touch()
        return _Document(path, self)

    @abstractmethod
    def document(self, tasks: list[Ended]) -> dict[str, Any]:
        """Returns the document of the tasks, which are in the order of their numbers."""


class _Document:
    def __init__(self, path: Path, plugin: DocumentPlugin) -> None:
        self._path = path
        self._plugin = plugin
        self._tasks: list[Ended] = []

    def note(self, task: Ended) -> None:
        self._tasks.append(task)

    def close(self) -> None:
        self._tasks.sort(key=lambda task: task.number)
        document = self._plugin.document(self._tasks)
        self._path.write_bytes(msgspec.json.encode(document))


class WfFormat(DocumentPlugin):
    """WfFormat 1.5 of WfCommons: the graph and the run time of each task, for simulators and generators."""

    file: OwnFile = "workflow.json"

    def document(self, tasks: list[Ended]) -> dict[str, Any]:
        """Returns the document of the schema.

        A failed task takes no time, because its run time and machine are not known.
        """
        children: dict[int, list[str]] = {task.number: [] for task in tasks}
        for task in tasks:
            for parent in dict.fromkeys(task.parents):
                children.get(parent, []).append(_id(task))
        begun = min((task.submitted for task in tasks), default=0.0)
        ended = max((task.received for task in tasks), default=begun)
        names = {task.number: _id(task) for task in tasks}
        by_number = {task.number: task for task in tasks}
        specification = [
            {
                "name": task.name,
                "id": _id(task),
                "parents": [names[one] for one in dict.fromkeys(task.parents) if one in names],
                "children": children[task.number],
                **_files(task, by_number),
            }
            for task in tasks
        ]
        files = [
            {"id": _result(task), "sizeInBytes": task.size}
            for task in tasks
            if task.size is not None
        ]
        execution = {
            "makespanInSeconds": ended - begun,
            "executedAt": datetime.fromtimestamp(begun, UTC).isoformat(),
            "tasks": [{"id": _id(task), "coreCount": 1, **_run(task)} for task in tasks],
        }
        if hosts := sorted({task.host for task in tasks} - {""}):
            execution["machines"] = [_machine(host) for host in hosts]
        return {
            "name": "gristmill-bench",
            "createdAt": datetime.now(UTC).isoformat(),
            "schemaVersion": "1.5",
            "runtimeSystem": {"name": "gristmill", "version": gristmill.__version__},
            "workflow": {
                "specification": {"tasks": specification} | ({"files": files} if files else {}),
                "execution": execution,
            },
        }


class Perfetto(DocumentPlugin):
    """Trace events of Chrome, which ui.perfetto.dev shows: a track for each process, and arrows between tasks."""

    file: OwnFile = "trace.json"

    def document(self, tasks: list[Ended]) -> dict[str, Any]:
        """Returns the trace events, with times in microseconds since the first submission."""
        origin = min((task.submitted for task in tasks), default=0.0)
        hosts = sorted({task.host for task in tasks})
        events: list[dict[str, Any]] = [
            {"ph": "M", "name": "process_name", "pid": number, "args": {"name": host or "failed"}}
            for number, host in enumerate(hosts)
        ]
        by_number = {task.number: task for task in tasks}
        for task in tasks:
            begun, ready, returned, sent = _steps(task, origin)
            where = {"pid": hosts.index(task.host), "tid": task.process}
            events.append(
                {"ph": "X", "name": task.name, "ts": begun, "dur": sent - begun, **where}
                | {"args": {"task": task.number, "parents": task.parents, "error": _error(task)}}
            )
            if ready > begun or sent > returned:
                events += [
                    {"ph": "X", "name": name, "ts": first, "dur": last - first, **where}
                    for name, first, last in (
                        ("arguments", begun, ready),
                        ("function", ready, returned),
                        ("result", returned, sent),
                    )
                ]
            for parent in dict.fromkeys(task.parents):
                if parent in by_number:
                    events += _arrow(by_number[parent], task, origin, hosts)
        return {"traceEvents": events, "displayTimeUnit": "ms"}


def _arrow(parent: Ended, child: Ended, origin: float, hosts: list[str]) -> list[dict[str, Any]]:
    shared = {"name": "needs", "cat": "graph", "id": f"{parent.number}-{child.number}"}
    begin = {"pid": hosts.index(parent.host), "tid": parent.process}
    end = {"pid": hosts.index(child.host), "tid": child.process, "bp": "e"}
    return [
        {"ph": "s", "ts": _steps(parent, origin)[3], **begin, **shared},
        {"ph": "f", "ts": _steps(child, origin)[0], **end, **shared},
    ]


def _steps(task: Ended, origin: float) -> tuple[float, ...]:
    """Returns the time of each step of a task in microseconds; of a failed task, its submission and receipt."""
    seen = (task.submitted, task.submitted, task.received, task.received)
    return tuple((one - origin) * 1e6 for one in (seen if task.error is not None else task.times))


def _run(task: Ended) -> dict[str, Any]:
    if task.error is not None:
        # The schema has no field for a failure, and allows further fields.
        return {"runtimeInSeconds": 0.0, "failed": True}
    return {"runtimeInSeconds": task.returned - task.ready, "machines": [task.host]}


def _error(task: Ended) -> str | None:
    return None if task.error is None else f"{task.error.type}: {task.error.message}"


def _files(task: Ended, by_number: dict[int, Ended]) -> dict[str, list[str]]:
    """Returns the arguments and the result of a task as files, if their sizes are known."""
    parents = [by_number[one] for one in dict.fromkeys(task.parents) if one in by_number]
    given = [_result(one) for one in parents if one.size is not None]
    returned = [_result(task)] if task.size is not None else []
    lists = {"inputFiles": given, "outputFiles": returned}
    return {name: files for name, files in lists.items() if files}


def _result(task: Ended) -> str:
    return f"{_id(task)}.result"


def _id(task: Ended) -> str:
    """Returns the id of a task, in which the schema allows letters, digits and few others."""
    return f"{re.sub(r'[^0-9a-zA-Z_.-]', '_', task.name)}.{task.number}"


def _machine(host: str) -> dict[str, Any]:
    """Describes a machine; of another machine than this only the name is known."""
    if host != platform.node():
        return {"nodeName": host}
    return {
        "nodeName": host,
        "system": "linux",
        "architecture": platform.machine(),
        "release": platform.release(),
        "memoryInBytes": instruments.memory_of_machine(),
        "cpu": {"coreCount": os.cpu_count() or 1},
    }
