"""Calls that are measured where they run, with readings that return together with the value or the exception."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from gristmill import _forked

if TYPE_CHECKING:
    from collections.abc import Callable

    from gristmill.parsl._kernel.monitoring.readings import Reading

#: Marks a measured value. Most values travel as fast inside a tuple as alone; inside a class of ours none would.
_MARK = "gristmill measured"
#: The attribute in which an exception carries its readings.
_CARRIER = "_gristmill_measured"


class Measured(NamedTuple):
    """The measurements of one call from the process that ran it."""

    hostname: str
    #: The block of the worker, if a provider made it.
    block_id: str | None
    pid: int
    #: Seconds since the epoch.
    began: float
    ended: float
    #: The first at the start, the last at the end. Empty if readings are turned off.
    readings: list[Reading]


def measured(function: Callable[..., Any], interval: float) -> Callable[..., Any]:
    """Returns the function wrapped in a measurement.

    Its results must be passed to ``value_in``, and its exceptions to ``taken_from``.

    :param interval: seconds between two readings of its resource use; 0 for times without readings.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        return run_measured(function, interval, args, kwargs)

    call.__name__ = getattr(function, "__name__", call.__name__)
    return call


def run_measured(
    function: Callable[..., Any], interval: float, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[str, Any, tuple[Any, ...]]:
    """Runs a call and returns its value with the measurements. An exception of the call carries them."""
    finish = _begin(interval)
    try:
        value = _forked.guarded_with(function, args, kwargs)
    except BaseException as error:
        _burden(error, finish())
        raise
    return _MARK, value, finish()


def _begin(interval: float) -> Callable[[], tuple[Any, ...]]:
    began = time.time()
    where = (os.uname().nodename, os.environ.get("PARSL_WORKER_BLOCK_ID"), os.getpid())
    if not interval:
        return lambda: (*where, began, time.time(), [])
    from gristmill.parsl._kernel.monitoring import sampling

    watch = sampling.begin(interval)

    def finish() -> tuple[Any, ...]:
        ended = time.time()
        readings = [tuple(reading) for reading in sampling.end(watch)]
        return *where, began, ended, readings

    return finish


def _burden(error: BaseException, found: tuple[Any, ...]) -> None:
    try:
        setattr(error, _CARRIER, found)
    except Exception:
        return  # An exception without attributes carries no measurements.


def value_in(result: Any) -> tuple[Any, Measured | None]:
    """Returns the value of a call and its measurements. An unmeasured result is itself the value."""
    if type(result) is tuple and len(result) == 3 and result[0] == _MARK:
        return result[1], _restore(result[2])
    return result, None


def taken_from(error: BaseException) -> Measured | None:
    """Removes from an exception the measurements of the call that raised it, and returns them."""
    found = error.__dict__.pop(_CARRIER, None)
    return _restore(found) if found is not None else None


def _restore(found: tuple[Any, ...]) -> Measured:
    from gristmill.parsl._kernel.monitoring.readings import Reading

    *where_and_when, readings = found
    return Measured._make((*where_and_when, [Reading(*reading) for reading in readings]))
