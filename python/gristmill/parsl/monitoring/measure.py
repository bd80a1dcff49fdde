"""Calls that are measured where they run, with readings that come back with the value, or with the exception."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from gristmill.parsl.monitoring.readings import Reading

#: Stands before a measured value. Most values travel as fast inside of a tuple; inside of a type of ours none would.
_MARK = "gristmill measured"
#: Where an exception carries its readings.
_CARRIER = "_gristmill_measured"


class Measured(NamedTuple):
    """What is known of one call from where it ran."""

    hostname: str
    #: The block that the worker is in, where a provider made it.
    block_id: str | None
    pid: int
    #: Seconds since the epoch.
    began: float
    ended: float
    #: The first as it began, the last as it ended; none where none were wanted.
    readings: list[Reading]


def measured(function: Callable[..., Any], interval: float) -> Callable[..., Any]:
    """The function, measured: what it returns and raises has to go through ``value_in`` and ``taken_from``.

    :param interval: seconds between two readings of its use of resources; 0 for no readings, only times.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        return run_measured(function, interval, args, kwargs)

    call.__name__ = getattr(function, "__name__", call.__name__)
    return call


def run_measured(
    function: Callable[..., Any], interval: float, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[str, Any, tuple[Any, ...]]:
    """Runs a call; gives its value with what was measured, and raises what it raises, which carries that."""
    finish = _begin(interval)
    try:
        value = function(*args, **kwargs)
    except BaseException as error:
        _burden(error, finish())
        raise
    return _MARK, value, finish()


def _begin(interval: float) -> Callable[[], tuple[Any, ...]]:
    began = time.time()
    where = (os.uname().nodename, os.environ.get("PARSL_WORKER_BLOCK_ID"), os.getpid())
    if not interval:
        return lambda: (*where, began, time.time(), [])
    from gristmill.parsl.monitoring import sampling

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
        return  # An exception that takes no attributes goes without.


def value_in(result: Any) -> tuple[Any, Measured | None]:
    """The value of a call and what was measured; a result that was not measured is itself the value."""
    if type(result) is tuple and len(result) == 3 and result[0] == _MARK:
        return result[1], _restore(result[2])
    return result, None


def taken_from(error: BaseException) -> Measured | None:
    """What an exception carries of the call that raised it, which it then no longer does."""
    found = error.__dict__.pop(_CARRIER, None)
    return _restore(found) if found is not None else None


def _restore(found: tuple[Any, ...]) -> Measured:
    from gristmill.parsl.monitoring.readings import Reading

    *where_and_when, readings = found
    return Measured._make((*where_and_when, [Reading(*reading) for reading in readings]))
