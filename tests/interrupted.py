"""A runner that calls a signal handler or a destructor in the middle of code: once at each point where one can run."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType, ModuleType
from typing import NoReturn, TypeVar

T = TypeVar("T")

#: Events after which Python runs handlers. It runs none within an operation that makes no call.
_PLACES = frozenset({"call", "c_return", "c_exception"})


class Interruption(BaseException):
    """The exception that a signal handler raises."""

    @classmethod
    def strike(cls, _: object) -> NoReturn:
        """Raises this exception."""
        raise cls


def at_each_place(
    module: ModuleType,
    prepare: Callable[[], T],
    step: Callable[[T], object],
    handle: Callable[[T], object],
) -> int:
    """Runs ``step`` on values of ``prepare`` until ``handle`` was called once at each point in the code of a module.

    Code that the module calls belongs to it. Returns the number of points.
    """
    for place in itertools.count():
        given = prepare()
        if not _runs_at(place, module, partial(step, given), partial(handle, given)):
            return place
    raise AssertionError("counting has no end")


def _runs_at(
    place: int, module: ModuleType, step: Callable[[], object], handle: Callable[[], object]
) -> bool:
    """Runs ``step`` and calls ``handle`` at one point; returns whether that point exists."""
    places = itertools.count()
    has_run = False

    def look(frame: FrameType, event: str, _: object) -> None:
        nonlocal has_run
        if event in _PLACES and _is_of(module, frame) and next(places) == place:
            sys.setprofile(None)
            has_run = True
            handle()

    sys.setprofile(look)
    try:
        step()
    finally:
        sys.setprofile(None)
    return has_run


def _is_of(module: ModuleType, frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code.co_filename != module.__file__:
        frame = frame.f_back
    return frame is not None
