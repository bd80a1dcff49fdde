"""Parsl's kernel over HTEX, with timestamps of each task from the program and from all processes of HTEX.

No file of Parsl is changed. HTEX lets its users choose the commands that start interchange and manager; these commands
wrap some methods and then run Parsl's own program. Workers unpack a task with a function that the task names.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic_ns
from typing import Any

from gristmill_bench.borders import notes
from gristmill_bench.borders.hops import OF_HTEX, Border, Hop, of_borders
from gristmill_bench.executors.parsl_kernels import Kernel, Logs, htex
from gristmill_bench.interfaces import Future

#: Program in the command with which HTEX starts its managers: see ``parsl.executors``.
_MANAGER = "process_worker_pool.py"


class TimedKernel(Kernel):
    """A kernel over HTEX that timestamps its tasks."""

    def __init__(self, workers: int, logs: Logs, walltime: float | None) -> None:
        self._notes: notes.Notes
        self._submitted: dict[int, int] = {}
        self._ended: dict[int, int] = {}
        #: The executor's number of each task, by the kernel's number.
        self._numbers: dict[int, int] = {}
        #: Times of the task that is being launched: when the launching thread was handed it, and when that thread began
        #: with it.
        self._handed = self._begun = 0
        super().__init__("parsl", lambda folder: self._executor(workers, folder), logs, walltime)
        self._watch_launches()
        (executor,) = (one for one in self.kernel.executors.values() if one.label == "htex")
        put = executor.outgoing_q.put

        def note_and_put(message: dict[str, Any]) -> None:
            # Before the put, because the receiver may have the message before the put returns.
            self._notes.note(message["task_id"], Border.SENT)
            put(message)

        executor.outgoing_q.put = note_and_put

    def _watch_launches(self) -> None:
        """Wraps methods of the kernel to note when the launching thread is handed a task, and when it begins."""
        threads, launch = self.kernel._task_launch_pool, self.kernel.launch_task
        submit = threads.submit

        def note_and_begin(handed: int, launch_if_ready: Callable[[Any], Any], record: Any) -> Any:
            self._handed, self._begun = handed, monotonic_ns()
            return launch_if_ready(record)

        def note_and_submit(launch_if_ready: Callable[[Any], Any], record: Any) -> Any:
            return submit(note_and_begin, monotonic_ns(), launch_if_ready, record)

        def launch_and_note(record: Any) -> Any:
            future = launch(record)
            number = self._numbers[record["id"]] = future.parsl_executor_task_id
            self._notes.note(number, Border.HANDED, self._handed)
            self._notes.note(number, Border.BEGUN, self._begun)
            return future

        threads.submit, self.kernel.launch_task = note_and_submit, launch_and_note

    def _executor(self, workers: int, folder: str) -> Any:
        place = Path(folder)
        self._place = place
        self._notes = notes.Notes(place)
        package = __name__.rpartition(".")[0]
        command = [sys.executable, "-P", "-m"]
        made = htex(
            workers,
            folder,
            interchange_launch_cmd=[*command, f"{package}.interchange", folder],
        )
        made.launch_cmd = made.launch_cmd.replace(
            _MANAGER, shlex.join([*command, f"{package}.manager", folder]), 1
        )
        made.submit = self._noted(made.submit)
        made.submit_payload = _telling(made, f"{package}.worker.execute", folder)
        return made

    def _noted(self, submit: Callable[..., Any]) -> Callable[..., Any]:
        """Wraps the executor's submit to note when it begins and when there is a result."""
        note = self._notes.note

        def submit_and_note(*args: Any, **kwargs: Any) -> Any:
            begun = monotonic_ns()
            future = submit(*args, **kwargs)
            number = future.parsl_executor_task_id
            note(number, Border.LAUNCHED, begun)
            # The first callback of this future: the kernel's comes after it.
            future.add_done_callback(lambda _: note(number, Border.DELIVERED))
            return future

        return submit_and_note

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        """Calls the app of a function."""
        begun = monotonic_ns()
        future: Any = super().submit(function, *args, **kwargs)
        self._submitted[future.tid] = begun
        future.add_done_callback(self._note_end)
        return future  # type: ignore[no-any-return]

    def _note_end(self, future: Any) -> None:
        self._ended[future.tid] = monotonic_ns()

    def begin(self) -> None:
        """Forgets all earlier tasks."""
        self._submitted.clear()

    def hops(self) -> list[Hop]:
        """Returns the hops of later tasks that have ended."""
        noted = notes.read(self._place)
        tasks = []
        for task, submitted in self._submitted.items():
            borders = dict(noted.get(self._numbers.get(task, 0), {}))
            borders[Border.SUBMITTED] = submitted
            if task in self._ended:
                borders[Border.DONE] = self._ended[task]
            tasks.append(borders)
        return of_borders(tasks, OF_HTEX)


def _telling(executor: Any, function: str, folder: str) -> Callable[..., Any]:
    """Wraps an executor's ``submit_payload``, so that the function that unpacks a task gets its number."""
    submit = executor.submit_payload

    def submit_payload(context: dict[str, Any], buffer: bytes) -> Any:
        # One thread launches all tasks, so that the next task gets this number.
        number = executor._task_counter + 1
        return submit(context | {"task_executor": {"f": function, "a": (folder, number)}}, buffer)

    return submit_payload
