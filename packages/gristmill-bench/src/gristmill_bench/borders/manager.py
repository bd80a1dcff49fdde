"""HTEX's manager with timestamps: ``python -m gristmill_bench.borders.manager FOLDER ARGUMENTS OF PARSL'S``."""

from __future__ import annotations

import importlib
import pickle
import runpy
import sys
from pathlib import Path
from pickle import loads
from threading import local
from time import monotonic_ns
from typing import Any

from gristmill_bench.borders.hops import Border
from gristmill_bench.borders.notes import Notes

_POOL = "parsl.executors.high_throughput"


def watch(scheduler: Any, notes: Notes) -> None:
    """Wraps a class of schedulers to timestamp the tasks that arrive and the results that workers return."""
    put, get = scheduler.put_task, scheduler.get_result
    arrived = local()

    def load_and_remember(message: bytes) -> Any:
        # The receiving thread calls this first of all; other threads call it too, but put no tasks.
        arrived.when = monotonic_ns()
        return loads(message)

    pickle.loads = load_and_remember  # type: ignore[assignment]

    def put_task(self: Any, task: Any) -> None:
        notes.note(task["task_id"], Border.ARRIVED, arrived.when)
        # Before the put, because a worker may have the task before the put returns.
        notes.note(task["task_id"], Border.PUT)
        put(self, task)

    def get_result(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = get(self, *args, **kwargs)
        if result is not None and (message := loads(result))["type"] == "result":
            notes.note(message["task_id"], Border.COLLECTED)
        return result

    scheduler.put_task, scheduler.get_result = put_task, get_result


def main() -> None:
    """Runs Parsl's program with its arguments."""
    notes = Notes(Path(sys.argv.pop(1)))
    watch(importlib.import_module(f"{_POOL}.mpi_resource_management").TaskScheduler, notes)
    # As the main module, in which its spawned workers look up the function that they run.
    runpy.run_module(f"{_POOL}.process_worker_pool", run_name="__main__", alter_sys=True)


# The spawned workers import this module too.
if __name__ == "__main__":
    main()
