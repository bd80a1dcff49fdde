"""Records for the tests of replays: lines as one of our runs leaves them, and documents of WfFormat."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def line(
    name: str,
    seconds: float = 0.0,
    parents: Sequence[str] = (),
    *,
    at: float = 0.0,
    size: int | None = None,
    failed: bool = False,
) -> dict[str, Any]:
    """Returns the record of a task that began when it was submitted."""
    execution = {"task_start_time": at, "task_end_time": at + seconds}
    return {
        "task_id": name,
        "name": "work",
        "parent_task_ids": list(parents),
        "submit_time": at,
        "received_time": at + seconds,
        "success": not failed,
        "exception": None,
        "execution": None if failed else execution,
        "result_size": size,
    }


def write_lines(path: Path, *lines: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    return path


def workflow(
    tasks: dict[str, tuple[float, Sequence[str]]], sizes: dict[str, int] | None = None
) -> dict[str, Any]:
    """Returns a WfFormat document of tasks, each with its name, seconds and parents. A task that has a size wrote a
    file of its name.
    """
    written = sizes or {}
    specified = [
        {
            "name": name,
            "id": name,
            "parents": list(parents),
            "children": [],
            "outputFiles": [name] if name in written else [],
        }
        for name, (_, parents) in tasks.items()
    ]
    files = [{"id": name, "sizeInBytes": size} for name, size in written.items()]
    executed = [{"id": name, "runtimeInSeconds": seconds} for name, (seconds, _) in tasks.items()]
    return {
        "name": "it",
        "schemaVersion": "1.5",
        "workflow": {
            "specification": {"tasks": specified, "files": files},
            "execution": {"makespanInSeconds": 9.0, "executedAt": "", "tasks": executed},
        },
    }
