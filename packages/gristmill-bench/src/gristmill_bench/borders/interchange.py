"""HTEX's interchange with timestamps of its tasks: ``python -m gristmill_bench.borders.interchange FOLDER``."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from pickle import load, loads
from time import monotonic_ns
from typing import Any

from gristmill_bench.borders.hops import Border
from gristmill_bench.borders.notes import Notes


class _Results:
    """The socket that sends results to the executor."""

    def __init__(self, socket: Any, notes: Notes) -> None:
        self._socket = socket
        self._notes = notes

    def send(self, message: bytes) -> None:
        # Before the send, because the receiver may have the message before the send returns.
        self._notes.note(loads(message)["task_id"], Border.RETURNED)
        self._socket.send(message)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)


def watched(interchange: Any, notes: Notes) -> Any:
    """Returns a subclass of Parsl's interchange that timestamps its tasks."""

    class Watched(interchange):  # type: ignore[misc]
        def __init__(self, **config: Any) -> None:
            super().__init__(**config)
            self._taken: list[int] = []
            self._send_to_manager = self.manager_sock.send_multipart
            # The socket object stays the same, because it is polled.
            self.manager_sock.send_multipart = self.note_and_send
            self.results_outgoing: Any = _Results(self.results_outgoing, notes)

        def process_task_incoming(self) -> None:
            begun, count = monotonic_ns(), len(self.pending_task_queue)
            super().process_task_incoming()
            if len(self.pending_task_queue) > count:
                # Sorted by priority, and within one by negative numbers: the first entry is the last task that came.
                number = -self.pending_task_queue[0][1]
                notes.note(number, Border.QUEUED)
                notes.note(number, Border.RECEIVED, begun)

        def get_tasks(self, count: int) -> Any:
            tasks = super().get_tasks(count)
            self._taken = [task["task_id"] for task in tasks]
            now = monotonic_ns()
            for number in self._taken:
                notes.note(number, Border.TAKEN, now)
            return tasks

        def note_and_send(self, parts: Any, **options: Any) -> Any:
            """Sends a message to a manager, and timestamps the tasks that it takes."""
            now = monotonic_ns()
            for number in self._taken:
                notes.note(number, Border.FORWARDED, now)
            self._taken = []
            return self._send_to_manager(parts, **options)

    return Watched


def main() -> None:
    """Runs Parsl's interchange, which reads its configuration from the standard input."""
    found = importlib.import_module("parsl.executors.high_throughput.interchange").Interchange
    importlib.import_module("parsl.utils").setproctitle("parsl: HTEX interchange")
    config = load(sys.stdin.buffer)
    watched(found, Notes(Path(sys.argv[1])))(**config).start()


if __name__ == "__main__":
    main()
