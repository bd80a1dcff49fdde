"""A thread of a worker that takes readings of long calls. Short calls pay nothing for it."""

from __future__ import annotations

import os
import threading
import time

from gristmill.parsl._kernel.monitoring.readings import Reading, take, take_with_descendants

#: Minimum interval in seconds: a shorter one would measure the measurement.
_INTERVAL_MIN = 0.01
#: Readings of one call, of about 600 bytes each. After that, every second one is left out, and the interval doubles.
_READINGS_MAX = 4096
#: Seconds within which a task's last reading serves as the first of the next task: only their worker ran in between.
_SAME_MOMENT_S = 0.001


class Watch:
    """A running call, and its readings so far.

    :param interval: seconds between two readings.
    """

    def __init__(self, interval: float) -> None:
        self.interval = max(interval, _INTERVAL_MIN)
        self.readings = [_first()]
        self.due = time.monotonic() + self.interval

    def sample(self) -> None:
        """Takes one more reading."""
        self.readings.append(take_with_descendants())
        if len(self.readings) >= _READINGS_MAX:
            # The first one stays: the counters of the others are relative to it.
            del self.readings[1::2]
            self.interval *= 2
        self.due = time.monotonic() + self.interval


#: The calls that this process is running, by the id of their watch.
_running: dict[int, Watch] = {}
#: The thread that takes the readings, once it runs.
_threads: dict[str, threading.Thread] = {}
_NAME = "gristmill-monitoring"
#: The last reading of the call that ended last.
_latest: Reading | None = None


def begin(interval: float) -> Watch:
    """Takes the first reading, and starts further ones for the duration of the call."""
    watch = Watch(interval)
    _running[id(watch)] = watch
    if not _threads:
        _start(watch.interval)
    return watch


def end(watch: Watch) -> list[Reading]:
    """Takes the last reading, and returns all of them."""
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
    thread = threading.Thread(target=_sample, args=(interval,), name=_NAME, daemon=True)
    thread.start()
    _claim_readings(thread)


def _claim_readings(thread: threading.Thread) -> bool:
    """Makes a thread the one that takes the readings, if there is none. Returns whether the thread has this role.

    The thread itself calls this too, because a task's interrupt may be raised in the thread that started it.
    """
    return _threads.setdefault(_NAME, thread) is thread


def _sample(interval: float) -> None:
    if not _claim_readings(threading.current_thread()):
        return
    # A call that begins during the sleep is due one interval later, after the sleep has ended. So no call has to wake
    # this thread.
    while True:
        now = time.monotonic()
        next_due = now + interval
        for watch in list(_running.values()):
            if watch.due <= now:
                watch.sample()
            next_due = min(next_due, watch.due)
        time.sleep(max(next_due - time.monotonic(), _INTERVAL_MIN))


def _forget() -> None:
    """Clears the state in a fork, which has neither the thread nor the calls of its parent."""
    global _latest
    _latest = None
    _threads.clear()
    _running.clear()


os.register_at_fork(after_in_child=_forget)
