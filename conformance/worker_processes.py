"""Worker processes of an executor, for tests that read those of their own pool from private attributes.

Our executor has no list of its processes. Its initializer reports each worker by a file with the process number.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

#: Seconds within which all workers of an executor that has got a task are expected to start.
_START_S = 20.0
#: Seconds within which workers that a test waits for, without a limit of its own, have to end.
_END_S = 15.0
_PAUSE_S = 0.01


def report(
    folder: str, environment: dict[str, str], initializer: Callable[..., Any] | None, *values: Any
) -> None:
    """Reports the worker that calls it, and then prepares it: an initializer."""
    # The folder ends with an executor that was dropped, and whose tasks go on.
    with contextlib.suppress(FileNotFoundError):
        (Path(folder) / str(os.getpid())).touch()
    os.environ.update(environment)
    if initializer is not None:
        initializer(*values)


class Process:
    """A worker, with the part of ``multiprocessing.Process`` that tests use."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def is_alive(self) -> bool:
        """Returns whether the process runs."""
        return not self._wait(0)

    def join(self, timeout: float | None = None) -> None:
        """Waits until the process has ended, for at most ``timeout`` seconds.

        Without ``timeout`` it raises ``AssertionError`` if the process does not end.
        """
        has_ended = self._wait(_END_S if timeout is None else timeout)
        assert has_ended or timeout is not None, f"worker {self.pid} does not end"

    def terminate(self) -> None:
        """Sends SIGTERM."""
        os.kill(self.pid, signal.SIGTERM)

    @property
    def exitcode(self) -> int | None:
        """``None`` while the process runs. How it ended is known to its parent only."""
        return None if self.is_alive() else 0

    def _wait(self, timeout: float) -> bool:
        try:
            watch = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return True
        try:
            poll = select.poll()
            poll.register(watch, select.POLLIN)
            return bool(poll.poll(timeout * 1000))
        finally:
            os.close(watch)


class Processes(Mapping[int, Process]):
    """Living workers of an executor, by process number.

    An executor starts its workers in the background with its first task. So a reader waits until all of them are there.
    """

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="gristmill-workers-"))
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._executor: Callable[[], Any] = lambda: None

    def initializer(
        self,
        initializer: Callable[..., Any] | None,
        values: tuple[Any, ...],
        environment: dict[str, str] | None = None,
    ) -> dict[str, Any]:
        """Returns the executor's options ``initializer`` and ``initargs``, with which workers report themselves."""
        if initializer is not None and not callable(initializer):
            return {"initializer": initializer, "initargs": values}
        ours = (str(self._folder), environment or {}, initializer, *values)
        return {"initializer": report, "initargs": ours}

    def follow(self, executor: Any) -> None:
        """Reads the state of this executor from now on, without keeping it alive."""
        self._executor = weakref.ref(executor)

    def has_begun(self) -> bool:
        """Returns whether a worker has reported itself."""
        return bool(os.listdir(self._folder))

    def __getitem__(self, pid: int) -> Process:
        if not (self._folder / str(pid)).exists():
            raise KeyError(pid)
        return Process(pid)

    def __iter__(self) -> Iterator[int]:
        return iter(self._living())

    def __len__(self) -> int:
        return len(self._living())

    def _living(self) -> dict[int, Process]:
        end = time.monotonic() + _START_S
        while True:
            reported = [Process(int(name)) for name in sorted(os.listdir(self._folder), key=int)]
            living = {one.pid: one for one in reported if one.is_alive()}
            expected = self._expected()
            is_there = expected in (None, len(living)) or self._are_enough(len(living))
            if is_there or time.monotonic() > end:
                return living
            time.sleep(_PAUSE_S)

    def _expected(self) -> int | None:
        """Returns the number of workers that the executor has or will soon have; ``None`` if it is not known."""
        executor = self._executor()
        if executor is None or executor._is_shut_down or executor._is_broken():
            return None
        return executor.worker_count if executor.stats().submitted else 0

    def _are_enough(self, count: int) -> bool:
        """Returns whether there is a worker for each call, of an executor that starts them as calls come."""
        executor = self._executor()
        return bool(
            executor is not None
            and executor.starts_on_demand
            and count >= min(max(1, executor.stats().outstanding), executor.worker_count)
        )


class ManagerThread:
    """Stand-in for the thread that manages a pool: it has ended when no worker is left."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes

    def join(self, timeout: float | None = None) -> None:
        """Waits until all workers have ended."""
        end = None if timeout is None else time.monotonic() + timeout
        for process in self._processes.values():
            process.join(None if end is None else max(0.0, end - time.monotonic()))

    join_thread = join

    def is_alive(self) -> bool:
        """Returns whether a worker is left."""
        return len(self._processes) > 0
