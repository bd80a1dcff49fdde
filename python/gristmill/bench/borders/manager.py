"""HTEX's manager with notes of its tasks: ``python -m gristmill.bench.borders.manager FOLDER ARGUMENTS OF PARSL'S``."""

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

from gristmill.bench.borders.hops import Border
from gristmill.bench.borders.notes import Notes

_POOL = "parsl.executors.high_throughput"


def watch(scheduler: Any, notes: Notes) -> None:
    """Has a class of schedulers note the tasks that come and the results that workers give."""
    put, get = scheduler.put_task, scheduler.get_result
    arrived = local()

    def load_and_remember(message: bytes) -> Any:
        # The thread that receives calls it first of all; others do too, and put no tasks.
        arrived.when = monotonic_ns()
        return loads(message)

    pickle.loads = load_and_remember  # type: ignore[assignment]

    def put_task(self: Any, task: Any) -> None:
        notes.note(task["task_id"], Border.ARRIVED, arrived.when)
        # Before: a worker may have it sooner than this one goes on.
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
    # As the main module: that is where its workers, which are spawned, find what they run.
    runpy.run_module(f"{_POOL}.process_worker_pool", run_name="__main__", alter_sys=True)


# Its workers, which are spawned, import this module too.
if __name__ == "__main__":
    main()
