"""Ends after an exception, Ctrl-C among them: the program does not wait for its tasks any more."""

from __future__ import annotations

import sys
from typing import Any

#: An exception's own attributes, in classes that replace ``__dict__`` too.
_attributes_of = BaseException.__dict__["__dict__"].__get__


def handled_now() -> dict[str, Any] | None:
    """Returns what identifies the exception that this thread is handling, for ``handled_since``.

    It is the dictionary of the exception's attributes, which no other exception has. Unlike the exception, whose
    ``id`` another one may have later, it keeps no frames in memory.
    """
    error = sys.exception()
    return None if error is None else _attributes_of(error)


def handled_since(before: dict[str, Any] | None) -> BaseException | None:
    """Returns the exception that this thread is handling, unless there is none or ``handled_now`` returned it."""
    error = sys.exception()
    return None if error is None or _attributes_of(error) is before else error


def uncaught() -> BaseException | None:
    """Returns the exception that ends the program. There is none in interactive sessions, which go on after theirs."""
    if hasattr(sys, "ps1"):
        return None
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    # Loops of events leave exceptions of their callbacks here, too, and go on: those were caught in a called frame.
    traceback = None if error is None else error.__traceback__
    return error if traceback is not None and traceback.tb_frame.f_back is None else None
