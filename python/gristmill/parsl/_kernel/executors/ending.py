"""Ends after an exception, Ctrl-C among them: the program does not wait for its tasks any more."""

from __future__ import annotations

import sys


def handled_since(before: BaseException | None) -> BaseException | None:
    """Returns the exception that this thread is handling, unless it is ``before`` or there is none."""
    error = sys.exception()
    return None if error is before else error


def uncaught() -> BaseException | None:
    """Returns the exception that ends the program. There is none in interactive sessions, which go on after theirs."""
    if hasattr(sys, "ps1"):
        return None
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    # Loops of events leave exceptions of their callbacks here, too, and go on: those were caught in a called frame.
    traceback = None if error is None else error.__traceback__
    return error if traceback is not None and traceback.tb_frame.f_back is None else None
