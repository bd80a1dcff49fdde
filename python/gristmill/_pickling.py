"""Pickles what the native encoding leaves aside: cloudpickle, with futures as holes for their values.

A pickle of ours is the number of parents as two little-endian bytes, then the bytes of protocol 5. Functions and
classes of ``__main__``, lambdas and closures go by value, everything importable by name. ``_unpickling`` reads it.
Loaded by whoever pickles first: cloudpickle takes longer to import than all of Gristmill.
"""

from __future__ import annotations

import functools
import io
import pickle
import sys
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import cloudpickle

from gristmill import _native, _unpickling
from gristmill._errors import UnpicklableError

#: Smaller buffers stay in the pickle.
BLOCK_MIN = _native.BLOCK_MIN
_PARENTS_MAX = 0xFFFF
_FOREIGN = "a future of another executor cannot be an argument: pass its result()"


def _is_found_by_name(function: Any) -> bool:
    """Whether any process finds this very object where its name says, so that pickle may write the name."""
    module = sys.modules.get(getattr(function, "__module__", None) or "__main__")
    if module is None or module.__name__ == "__main__":
        return False
    found: Any = module
    for part in function.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is function


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Writes each future as a hole and remembers it."""

    def __init__(self, file: io.BytesIO, is_for_task: bool, buffers: list[Any] | None) -> None:
        take = None if buffers is None else _taker(buffers)
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL, buffer_callback=take)
        self.futures: list[Any] = []
        #: Where each future is, by its address, which the list keeps in use.
        self._places: dict[int, int] = {}
        self._is_for_task = is_for_task

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, (_native.Future, _native.Ticket)):
            return _unpickling.fill, (self._index(obj),)
        if self._is_for_task and isinstance(obj, Future):
            raise _native.ForeignFuture(_FOREIGN)
        if type(obj) is functools._lru_cache_wrapper and not _is_found_by_name(obj):
            parameters = obj.cache_parameters()
            arguments = obj.__wrapped__, parameters["maxsize"], parameters["typed"]
            return _unpickling.cached, arguments
        if self._is_for_task:
            handle = handle_of(obj)
            if handle is not None:
                return handle
        return super().reducer_override(obj)

    def _index(self, future: Any) -> int:
        index = self._places.get(id(future))
        if index is not None:
            return index
        if len(self.futures) == _PARENTS_MAX:
            raise UnpicklableError(
                f"a call can have at most {_PARENTS_MAX} futures in its arguments"
            )
        self.futures.append(future)
        self._places[id(future)] = len(self.futures) - 1
        return len(self.futures) - 1


def handle_of(obj: Any) -> Any:
    """How an executor goes to one of its tasks: there it is the executor that runs the task."""
    if isinstance(obj, (_native.Engine, _native.Options)):
        from gristmill import _nested

        if isinstance(obj, _native.Engine):
            return _nested._received, ()
        return _nested._received_options, obj._for_tasks()  # type: ignore[attr-defined]
    nested = sys.modules.get("gristmill._nested")
    if nested is not None:
        if type(obj) is nested.NestedExecutor:
            return nested._received, ()
        if type(obj) is nested.NestedOptions:
            return nested._received_options, obj._for_tasks()
    return None


def _taker(buffers: list[Any]) -> Callable[[pickle.PickleBuffer], bool]:
    """Takes large contiguous buffers out of a pickle; the others stay in it."""

    def take(buffer: pickle.PickleBuffer) -> bool:
        try:
            raw = buffer.raw()
        except BufferError:
            return True
        if raw.nbytes < BLOCK_MIN:
            return True
        buffers.append(raw)
        return False

    return take


def _dump(
    value: Any, is_for_task: bool = False, buffers: list[Any] | None = None
) -> tuple[bytes, list[Any]]:
    file = io.BytesIO()
    file.write(b"\0\0")
    pickler = _Pickler(file, is_for_task, buffers)
    pickler.dump(value)
    view = file.getbuffer()
    view[:2] = len(pickler.futures).to_bytes(2, "little")
    return view.tobytes(), pickler.futures


def dump_call(
    args: tuple[Any, ...], kwargs: dict[str, Any] | None, buffers: list[Any] | None = None
) -> tuple[bytes, list[Any]]:
    """Pickles the arguments of a call; gives the bytes and the futures in the order of their holes.

    Large buffers are appended to ``buffers`` instead, if it is given.

    Raises ``UnpicklableError``, which names the part that cannot be pickled; ``ForeignFuture`` for a future that is
    none of this engine's kind.
    """
    try:
        return _dump((args, kwargs or {}), True, buffers)
    except _native.ForeignFuture:
        raise
    except Exception as error:
        named = [(f"argument {index}", value) for index, value in enumerate(args)]
        named += [(f"argument {name!r}", value) for name, value in (kwargs or {}).items()]
        raise _explained(named, error, True) from error


def dump_value(value: Any, buffers: list[Any] | None = None, *, is_for_task: bool = False) -> bytes:
    """Pickles one value that holds no futures; ``buffers`` as above. Raises ``UnpicklableError``.

    :param is_for_task: a task will have it, so that an executor in it becomes the one that runs the task.
    """
    try:
        pickled, futures = _dump(value, is_for_task, buffers)
        if futures:
            raise TypeError(
                "it holds a future: pass that as an argument of its own, or its result()"
            )
        return pickled
    except Exception as error:
        raise _explained(
            [(f"the {type(value).__qualname__}", value)], error, is_for_task
        ) from error


def _explained(
    named: list[tuple[str, Any]], error: Exception, is_for_task: bool
) -> UnpicklableError:
    for name, value in named:
        culprit = _find_culprit(name, value, is_for_task, depth=8)
        if culprit is not None:
            path, kind = culprit
            return UnpicklableError(f"{path} ({kind}) cannot be pickled: {error}")
    return UnpicklableError(f"the arguments cannot be pickled: {error}")


def _find_culprit(path: str, value: Any, is_for_task: bool, depth: int) -> tuple[str, str] | None:
    """Walks down to the innermost part that does not pickle on its own."""
    try:
        _dump(value, is_for_task)
    except Exception:
        for name, part in _parts(path, value) if depth else ():
            culprit = _find_culprit(name, part, is_for_task, depth - 1)
            if culprit is not None:
                return culprit
        return path, type(value).__qualname__
    return None


def _parts(path: str, value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [(f"{path}[{key!r}]", part) for key, part in value.items()]
    if isinstance(value, (list, tuple, set, frozenset)):
        return [(f"{path}[{index}]", part) for index, part in enumerate(value)]
    parts = [(f"{path}.{name}", part) for name, part in getattr(value, "__dict__", {}).items()]
    code = getattr(value, "__code__", None)
    for name, cell in zip(
        getattr(code, "co_freevars", ()), getattr(value, "__closure__", None) or (), strict=False
    ):
        parts.append((f"{path} captures {name!r}", cell.cell_contents))
    names = getattr(code, "co_names", ())
    used = getattr(value, "__globals__", {})
    parts += [(f"{path} uses the global {name!r}", used[name]) for name in names if name in used]
    return parts
