"""Leases: workers, memory and GPUs for a time (rFaaS, sections 3.1 to 3.3)."""

from __future__ import annotations

import dataclasses
import math
import threading
import time
import weakref

from gristmill._executor import LEARNED_US, Executor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from gristmill._nodes.placement import Placement

#: Between two looks at whether a lease was granted, seconds: the first, and the longest.
_LOOK_S, _LOOK_MAX_S = 0.02, 0.5


@dataclasses.dataclass(frozen=True)
class LeaseUse:
    """What a lease has been used for so far."""

    #: Memory that was held, times how long, gigabyte-seconds.
    allocation_gb_s: float
    #: Workers that were held, times how long, seconds.
    workers_s: float
    #: How long tasks ran, together, seconds.
    busy_s: float
    #: Tasks whose worker looked for tasks or ran one, slept, or had to be started first.
    hot: int
    warm: int
    cold: int


class Lease(Executor):
    """The right to use workers, memory and GPUs for a time; an ``Executor`` whose workers are held meanwhile.

    :param nodes: a placement of ``gristmill.on``, or addresses of agents that listen; this machine if not given.
    :param workers: of each node; all that it offers if not given. These three are what is needed: a node that has less
        gives nothing, what others have is waited for, and if all nodes have less tasks fail with ``StartError``.
    :param memory: what tasks may ask for together, bytes or a text such as ``"64GB"``, of each node; all if not given.
        Nobody else is given it meanwhile. It is no limit for what tasks use.
    :param gpus: GPUs that tasks may ask for, of each node; all that are found if not given.
    :param seconds: for how long; until it is released if not given. On nodes its time begins when the first of them
        grants it. When it is over what runs is killed, and every task that has not ended fails with ``LeaseExpired``.
        No task is started on a node that is not expected to end before, and none in the last eighth of that time, or
        the node's ``--drain`` if that is less.
    :param hot: seconds for which a worker without a task looks for the next one, and keeps a core busy, before it
        sleeps; learned from how often tasks come if not given, up to 5 milliseconds.
    :param options: as of ``Executor``: ``initializer``, ``initargs``, ``start``, ``preload``, ``output``,
        ``threads_per_worker``, ``max_tasks_per_child``, ``task_limit``, ``when_full``.

    It is taken when it is made, and its workers are started; ``wait`` returns when there is one.
    """

    def __init__(
        self,
        nodes: Placement | Sequence[str] | None = None,
        *,
        workers: int | None = None,
        memory: int | str | None = None,
        gpus: int | None = None,
        seconds: float | None = None,
        hot: float | None = None,
        **options: Any,
    ) -> None:
        if seconds is not None and not (math.isfinite(seconds) and seconds > 0):
            raise ValueError(f"seconds must be a positive number, not {seconds!r}")
        if hot is not None and not (math.isfinite(hot) and hot >= 0):
            raise ValueError(f"hot must be a number of seconds, not {hot!r}")
        spin_us = None if hot is None else hot * 1e6
        super().__init__(workers, nodes=nodes, memory=memory, gpus=gpus, spin_us=spin_us, **options)
        if hot is None:
            self._hot_us = LEARNED_US
        self._seconds = seconds
        self._wish["exact"] = True
        self._timer: threading.Timer | None = None
        #: Taken by whoever lets the time begin, or changes its end.
        self._clock = threading.RLock()
        self._taken_at = math.inf
        self._ends_at = math.inf
        # Memory is what an engine starts for if there is no task.
        self._allocate(1)
        if self._placement is None:
            self._begin()
        elif seconds is not None:
            # A batch system may take hours to give a node, and a lease that was not granted costs nothing.
            self._watch_grant()

    @property
    def ends_in(self) -> float | None:
        """Seconds that are left, all of them until a node has granted it; ``None``: until it is released."""
        if self._seconds is None:
            return None
        if not self._is_granted():
            return self._seconds
        return max(0.0, self._ends_at - time.monotonic())

    def wait(self, timeout: float | None = None) -> None:
        """Returns when there is a worker. Raises ``TimeoutError`` after ``timeout`` seconds and says why there is none.

        What others have at the moment is waited for. ``StartError`` is raised where no node has as much.
        """
        future = self.submit(int)
        try:
            future.result(timeout)
        except TimeoutError:
            why = self.explain(future)
            future.cancel()
            raise TimeoutError(f"the lease has no worker after {timeout:g} s: {why}") from None
        self._is_granted()

    def extend(self, seconds: float) -> None:
        """Lets it last longer by so many seconds; a node whose own time is over before leaves it then.

        Raises ``ValueError`` for a lease without an end, and ``LeaseExpired`` for one that is over.
        """
        if self._seconds is None:
            raise ValueError("this lease has no end that could come later")
        if not (math.isfinite(seconds) and seconds > 0):
            raise ValueError(f"seconds must be a positive number, not {seconds!r}")
        if self.ends_in == 0:
            from gristmill._errors import LeaseExpired

            raise LeaseExpired(self._end_text())
        with self._clock:
            self._seconds += seconds
            if self._taken_at != math.inf:
                self._end_at(self._ends_at + seconds)

    def release(self) -> None:
        """Gives everything back, when what was submitted is completed."""
        self.shutdown()

    def use(self) -> LeaseUse:
        """What it has been used for so far."""
        counts = self.stats()
        if self._placement is None:
            held = min(time.monotonic(), self._ends_at) - self._taken_at
            workers_s, gb_s = held * self._max_workers, held * self._supply["memory"] / 1e9
        else:
            workers_s, gb_s = self._allocation()
        temperatures = {name: counts[name] for name in ("hot", "warm", "cold")}
        return LeaseUse(gb_s, workers_s, counts["busy_ns"] / 1e9, **temperatures)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """As ``Executor.shutdown``: gives everything back."""
        super().shutdown(wait, cancel_futures=cancel_futures)
        if self._timer is not None and wait:
            self._timer.cancel()

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
        """Whether there was ever a worker; lets the time begin with the first node that has granted some."""
        with self._clock:
            if self._taken_at == math.inf and any(one["granted_workers"] for one in self._nodes()):
                self._begin()
            return self._taken_at != math.inf

    def _begin(self) -> None:
        self._taken_at = time.monotonic()
        if self._seconds is not None:
            self._end_at(self._taken_at + self._seconds)

    def _end_at(self, ends_at: float) -> None:
        """Lets it be over then, here and at the nodes that there are and those to come."""
        self._ends_at = ends_at
        self._set_timer()
        self._extend(ends_at - time.monotonic())

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self.ends_in is not None:
            self._timer = threading.Timer(self.ends_in, _end, [weakref.ref(self)])
            self._timer.daemon = True
            self._timer.start()

    def _end_text(self) -> str:
        return f"the lease is over, which was for {self._seconds:g} s: extend it before, or take a longer one"


def _end(reference: weakref.ref[Lease]) -> None:
    lease = reference()
    if lease is not None and lease.ends_in == 0:
        lease._expire(lease._end_text())


def _await_grant(reference: weakref.ref[Lease]) -> None:
    """Looks for the grant until it is there, or nobody needs it any more; keeps no lease alive."""
    pause_s = _LOOK_S
    while (lease := reference()) is not None and not lease._is_granted():
        if lease._is_shut_down and not lease.stats().get("outstanding", 0):
            return
        del lease
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _LOOK_MAX_S)
