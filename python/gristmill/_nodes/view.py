"""What a placement sees of the executor that it is for."""

from __future__ import annotations

import logging
import threading
import weakref

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess

    from gristmill._executor import Executor

_log = logging.getLogger("gristmill.nodes")


class ClientView:
    """An executor, seen from its placement, whose threads must not keep it alive."""

    def __init__(self, executor: Executor, port: int | None, key: str) -> None:
        self._executor = weakref.ref(executor)
        self._workers: int = executor._wish["workers"] or 1
        self._port = port
        self._key = key
        self._lock = threading.Lock()
        self._refusal: subprocess.Popen[bytes] | None = None

    def is_over(self) -> bool:
        """Whether no node is needed any more: the executor takes no tasks, and those that it had are completed."""
        executor = self._executor()
        if executor is None:
            return True
        return executor._is_shut_down and executor.stats().get("outstanding", 0) == 0

    def tasks(self) -> int:
        """How many tasks could run now, and run: those that wait for others are not among them."""
        executor = self._executor()
        if executor is None:
            return 0
        counts = executor.stats()
        return counts.get("ready", 0) + counts.get("in_flight", 0)

    def nodes(self) -> list[str]:
        """The names of the nodes that there is a connection to."""
        executor = self._executor()
        if executor is None:
            return []
        return [name for name, is_connected, *_ in executor._nodes() if is_connected]

    def give_up(self, reason: str) -> None:
        """Fails every task that is not final, and those to come, with ``StartError``: nothing will ever run them."""
        _log.error("there are no nodes, and there will be none: %s", reason)
        if self._port is None:
            return
        from gristmill._nodes import refusal

        text = f"no node runs tasks, and there will be none: {reason}"
        with self._lock:
            if self._refusal is None and not self.is_over():
                self._refusal = refusal.start(self._port, self._key, self._workers, text)

    def close(self) -> None:
        """Takes leave of what ``give_up`` has started."""
        with self._lock:
            if self._refusal is not None:
                self._refusal.terminate()
                self._refusal.wait()
                self._refusal = None
