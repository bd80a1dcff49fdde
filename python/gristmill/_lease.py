"""Leases: workers, memory and GPUs for a time (rFaaS, sections 3.1 to 3.3)."""

from __future__ import annotations

import dataclasses
import math
import threading
import time
import weakref

from gristmill import _options, _resources
from gristmill._executor import LEARNED_US, Executor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from gristmill._nodes.placement import Placement

#: The first and the longest pause between two checks for a grant, seconds.
_LOOK_S, _LOOK_MAX_S = 0.02, 0.5


@dataclasses.dataclass(frozen=True)
class LeaseUse:
    """Use of a lease so far."""

    #: Memory that was held, times the time it was held, gigabyte-seconds.
    allocation_gb_s: float
    #: Workers that were held, times the time they were held, seconds.
    workers_s: float
    #: Run time of all tasks together, seconds.
    busy_s: float
    #: Runs of tasks on a worker that polled for tasks or ran one.
    hot: int
    #: Runs of tasks on a worker that slept.
    warm: int
    #: Runs of tasks on a worker that had not started yet.
    cold: int


class Lease(Executor):
    """The right to use workers, memory and GPUs for a time: an ``Executor`` whose workers are held meanwhile.

    :param nodes: a placement of ``gristmill.on``, or addresses of agents that listen; by default this machine.
    :param max_workers: workers of each node; by default all that it offers. ``max_workers``, ``memory`` and ``gpus``
        are all required: a node that has less grants nothing. If other programs hold a part, the lease waits. If all
        nodes have less, tasks fail with ``StartError``. A lease of this machine raises ``ResourceError`` at once if
        this program may use less.
    :param memory: memory of each node that all tasks together may request: bytes, or text such as ``"64GB"``; by
        default all. No other lease is granted it meanwhile. It does not limit what tasks use.
    :param gpus: GPUs of each node that tasks may request; by default all that are found.
    :param seconds: the duration; by default until the lease is released. On nodes the time begins when the first node
        grants the lease. When the lease is over, running tasks are killed, and every task that has not ended fails
        with ``LeaseExpiredError``. No task starts on a node if it is not expected to end before, and none in the last
        eighth of the time, or in the node's ``--drain`` time if that is less.
    :param spin_seconds: seconds that a worker without a task polls for the next one, which keeps a core busy, before it
        sleeps; by default learned from how often tasks come, up to 5 milliseconds.
    :param options: as of ``Executor``: ``initializer``, ``initargs``, ``start``, ``preload``, ``start_timeout``,
        ``output``, ``threads_per_worker``, ``max_tasks_per_child``, ``task_limit``, ``when_full``.

    Making the object takes the lease and starts its workers. ``wait`` returns when there is a worker.

    ```pycon
    >>> from gristmill import Lease
    >>> with Lease(max_workers=1, memory="100MB", seconds=60) as lease:
    ...     lease.wait()
    ...     lease.submit(pow, 2, 10).result()
    1024
    ```
    """

    def __init__(
        self,
        nodes: Placement | Sequence[str] | None = None,
        *,
        max_workers: int | None = None,
        memory: int | str | None = None,
        gpus: int | None = None,
        seconds: float | None = None,
        spin_seconds: float | None = None,
        **options: Any,
    ) -> None:
        seconds = _options.optional_seconds("seconds", seconds, is_positive=True)
        max_workers = _options.workers("max_workers", max_workers)
        gpus = _options.optional_count("gpus", gpus, 0, _resources.GPUS_MAX)
        if nodes is None:
            _resources.check_machine_has(max_workers, memory, gpus)
        super().__init__(
            max_workers, nodes=nodes, memory=memory, gpus=gpus, spin_seconds=spin_seconds, **options
        )
        if spin_seconds is None:
            self._hot_us = LEARNED_US
        self._seconds = seconds
        self._lease_request["exact"] = True
        self._timer: threading.Timer | None = None
        #: Held while the time begins or while its end changes.
        self._clock = threading.RLock()
        self._taken_at = math.inf
        self._ends_at = math.inf
        #: Time at which the resources were given back; infinite before.
        self._released_at = math.inf
        if self._stands_for_own:
            return
        # An engine without a task starts when memory is allocated.
        self._allocate(1)
        if self._placement is None:
            self._begin()
        elif seconds is not None:
            # A batch system may take hours to give a node, and a lease that was not granted costs nothing.
            self._watch_grant()

    @property
    def ends_in(self) -> float | None:
        """Seconds that are left; all of them until a node grants the lease; ``None`` for a lease without an end."""
        self._check_made()
        if self._seconds is None:
            return None
        if not self._is_granted():
            return self._seconds
        return max(0.0, self._ends_at - time.monotonic())

    def wait(self, timeout: float | None = None) -> None:
        """Waits until there is a worker. Raises ``TimeoutError`` with the reason after ``timeout`` seconds.

        Waits for resources that other programs hold. Raises ``StartError`` if no node has enough.
        """
        timeout = _options.patience(timeout)
        future = self.submit(int)
        try:
            future.result(timeout)
        except TimeoutError:
            why = self.explain(future)
            future.cancel()
            raise TimeoutError(f"the lease has no worker after {timeout:g} s: {why}") from None
        self._is_granted()

    def extend(self, seconds: float) -> None:
        """Extends the lease by so many seconds. A node whose own time is over earlier leaves the lease then.

        Raises ``ValueError`` for a lease without an end, and ``LeaseExpiredError`` for one that is over.
        """
        self._check_made()
        if self._seconds is None:
            raise ValueError("this lease has no end that could be extended")
        seconds = _options.seconds("seconds", seconds, is_positive=True)
        if self.ends_in == 0:
            from gristmill._errors import LeaseExpiredError

            raise LeaseExpiredError(self._end_text())
        with self._clock:
            # No call between these lines: in a call, a signal handler could extend the lease, too.
            self._seconds += seconds
            self._ends_at += seconds
            if self._taken_at != math.inf:
                self._tell_end()

    def release(self) -> None:
        """Gives all resources back when the submitted tasks are completed."""
        self.shutdown()

    def use(self) -> LeaseUse:
        """Returns the use of the lease so far."""
        self._check_made()
        counts = self.stats()
        if self._placement is None:
            held = min(time.monotonic(), self._ends_at, self._released_at) - self._taken_at
            workers_s, gb_s = held * self._max_workers, held * self._supply["memory"] / 1e9
        else:
            workers_s, gb_s = self._allocation()
        return LeaseUse(gb_s, workers_s, counts.busy_ns / 1e9, counts.hot, counts.warm, counts.cold)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Gives all resources back, as ``Executor.shutdown`` does."""
        super().shutdown(wait, cancel_futures=cancel_futures)
        if wait:
            self._released_at = min(self._released_at, time.monotonic())
            self._stop_timer()

    def _watch_grant(self) -> None:
        watch = threading.Thread(target=_await_grant, args=[weakref.ref(self)], daemon=True)
        watch.name = "gristmill-lease"
        watch.start()

    def _renew_references(self) -> None:
        super()._renew_references()
        if self._seconds is None:
            return
        with self._clock:
            if self._taken_at == math.inf:
                self._watch_grant()
            else:
                self._set_timer()

    def _is_granted(self) -> bool:
        """Returns whether there was ever a worker. Begins the lease's time when the first node has granted workers."""
        with self._clock:
            if self._taken_at == math.inf and any(one.granted_workers for one in self.nodes()):
                self._begin()
            return self._taken_at != math.inf

    def _begin(self) -> None:
        self._taken_at = time.monotonic()
        if self._seconds is not None:
            self._ends_at = self._taken_at + self._seconds
            self._tell_end()

    def _tell_end(self) -> None:
        """Sets the end of the lease here, at the nodes that there are, and at those to come."""
        self._set_timer()
        now = time.monotonic()
        self._extend(self._ends_at - now)

    def _stop_timer(self) -> None:
        # Taken out first: a signal handler that stopped the timer in between would wait for the timer's lock for ever.
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _set_timer(self) -> None:
        self._stop_timer()
        if self.ends_in is not None:
            # Threads cannot wait for longer than three centuries.
            seconds = min(self.ends_in, threading.TIMEOUT_MAX)
            timer = threading.Timer(seconds, _end, [weakref.ref(self)])
            timer.daemon = True
            timer.start()
            self._timer = timer

    def _end_text(self) -> str:
        return f"the lease of {self._seconds:g} s has expired: extend it earlier, or request a longer one"


def _end(reference: weakref.ref[Lease]) -> None:
    lease = reference()
    if lease is not None and lease.ends_in == 0:
        lease._expire(lease._end_text())


def _await_grant(reference: weakref.ref[Lease]) -> None:
    """Polls for the grant until it is there or no longer needed. Keeps no lease alive."""
    pause_s = _LOOK_S
    while (lease := reference()) is not None and not lease._is_granted():
        if lease._is_shut_down and not lease.stats().outstanding:
            return
        del lease
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _LOOK_MAX_S)
