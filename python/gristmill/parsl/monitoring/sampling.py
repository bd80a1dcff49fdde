"""One thread of a worker that takes readings of the calls that run for long; the others cost it nothing."""

from __future__ import annotations

import os
import threading
import time

from gristmill.parsl.monitoring.readings import Reading, take, take_with_descendants

#: A shorter interval would measure the measuring, seconds.
_INTERVAL_MIN = 0.01
#: Within so many seconds one task's last reading is the next one's first: only their worker ran between the two.
_SAME_MOMENT_S = 0.001


class Watch:
    """A call that runs, and the readings of it so far.

    :param interval: seconds between two readings.
    """

    def __init__(self, interval: float) -> None:
        self.interval = max(interval, _INTERVAL_MIN)
        self.readings = [_first()]
        self.due = time.monotonic() + self.interval

    def sample(self) -> None:
        """Takes one more reading."""
        self.readings.append(take_with_descendants())
        self.due = time.monotonic() + self.interval


#: The calls that this process is in, by the identity of their watch.
_running: dict[int, Watch] = {}
_starting = threading.Lock()
_thread: threading.Thread | None = None
#: Of the call that ended last.
_latest: Reading | None = None


def begin(interval: float) -> Watch:
    """Takes the first reading, and more for as long as the call lasts."""
    watch = Watch(interval)
    _running[id(watch)] = watch
    if _thread is None:
        _start(watch.interval)
    return watch


def end(watch: Watch) -> list[Reading]:
    """Takes the last reading; gives all of them."""
    global _latest
    _running.pop(id(watch), None)
    _latest = take()
    return [*watch.readings, _latest]


def _first() -> Reading:
    now = time.time()
    if _latest is not None and 0 <= now - _latest.at < _SAME_MOMENT_S:
        return _latest._replace(at=now)
    return take()


def _start(interval: float) -> None:
    global _thread
    with _starting:
        if _thread is None:
            _thread = threading.Thread(
                target=_sample, args=(interval,), name="gristmill-monitoring", daemon=True
            )
            _thread.start()


def _sample(interval: float) -> None:
    # A call that begins while this sleeps is due an interval later, when this is awake again: nobody has to wake it.
    while True:
        now = time.monotonic()
        next_due = now + interval
        for watch in list(_running.values()):
            if watch.due <= now:
                watch.sample()
            next_due = min(next_due, watch.due)
        time.sleep(max(next_due - time.monotonic(), _INTERVAL_MIN))


def _forget() -> None:
    """A process that a task forks has neither the thread nor the calls nor what was read."""
    global _thread, _starting, _latest
    _thread = _latest = None
    _starting = threading.Lock()
    _running.clear()


os.register_at_fork(after_in_child=_forget)
