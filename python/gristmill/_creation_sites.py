"""The place where a program makes an executor, and what stands for the executor in the workers that run its tasks.

A module that makes an executor makes one in each worker that imports the module, too. Both have the same creation site,
by which a worker knows that its own stands for the executor that runs its tasks.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

#: Numbers the executors that one run of a module's body makes at one place: the specification of the module, which each
#: run has anew, and the count.
_made: dict[Any, tuple[object, int]] = {}
#: The creation site of the executor that this worker belongs to.
_own: Any = None
#: True in a worker, and in the zygote of workers.
_is_worker = False


def site(terms: tuple[Any, ...]) -> tuple[Any, ...]:
    """Returns the creation site of an executor that the caller's caller is making.

    It consists of a module's name, of functions and lines, of a number, and of terms. While a module is imported, the
    lines lead from its body to the call of the executor's class, and the number counts the executors that its body
    makes there, in a loop for example. At other times the line of that call counts alone: an executor that a function
    makes when it is first needed has the same site in every process.
    """
    calls = _calls()
    body = next((place for place, frame in enumerate(calls) if _is_imported(frame)), None)
    if body is None:
        # A subclass calls its base class, and is called itself.
        maker = next((one for one in calls if one.f_code.co_name != "__init__"), None)
        return (*_lines([maker] if maker is not None else []), 0, *terms)
    found = (*_lines(calls[: body + 1]), *terms)
    run = calls[body].f_globals["__spec__"]
    before, count = _made.get(found, (run, 0))
    number = count if before is run else 0
    _made[found] = run, number + 1
    return (*found[: len(found) - len(terms)], number, *terms)


def where() -> str:
    """Returns the line outside this package that is being run, in words."""
    frame = next(iter(_calls()), None)
    return "an unknown place" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def enter(own: Any) -> None:
    """Makes this process, and its forks that are workers, belong to an executor with this creation site."""
    global _own, _is_worker
    _own, _is_worker = own, True


def is_worker() -> bool:
    """Returns whether this process runs tasks of an executor, or is the zygote of processes that do."""
    return _is_worker


def is_own(other: tuple[Any, ...]) -> bool:
    """Returns whether an executor that was made at a creation site stands for the one that this worker belongs to."""
    return _own is not None and _own == other


def _calls() -> list[FrameType]:
    """Returns the frames of this thread outside this package, the innermost first."""
    folder = os.path.dirname(__file__) + os.sep
    frame: FrameType | None = sys._getframe(1)
    found = []
    while frame is not None:
        if not frame.f_code.co_filename.startswith((folder, "<frozen importlib")):
            found.append(frame)
        frame = frame.f_back
    return found


def _is_imported(frame: FrameType) -> bool:
    """Returns whether a frame runs the body of a module that is being imported."""
    spec = frame.f_globals.get("__spec__")
    return frame.f_code.co_name == "<module>" and getattr(spec, "_initializing", False)


def _lines(frames: list[FrameType]) -> tuple[Any, ...]:
    """Returns the name of the module of the outermost of some frames, with the functions and lines of all."""
    if not frames:
        return ("",)
    names = frames[-1].f_globals
    module = names.get("__name__", "")
    if module == "__main__":
        module = getattr(names.get("__spec__"), "name", module)
    return (module, *((one.f_code.co_name, one.f_lineno) for one in frames))
