"""Pickles what the native encoding leaves aside: cloudpickle, with futures as holes for their values.

A pickle of ours is the number of parents as two little-endian bytes, then the bytes of protocol 5. Functions and
classes of ``__main__``, lambdas and closures go by value, everything importable by name.
"""

from __future__ import annotations

import io
import pickle
import threading
from collections.abc import Callable, Sequence
from typing import Any

import cloudpickle

from gristmill import _native
from gristmill._errors import UnpicklableError

#: Smaller buffers stay in the pickle.
BLOCK_MIN = _native.BLOCK_MIN
_PARENTS_MAX = 0xFFFF
_holes = threading.local()


def _fill(index: int) -> Any:
    """Gives the value for a hole while ``load`` runs."""
    return _holes.values[index]


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Writes each future as a hole and remembers it."""

    def __init__(self, file: io.BytesIO, buffers: list[Any] | None) -> None:
        take = None if buffers is None else _taker(buffers)
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL, buffer_callback=take)
        self.futures: list[Any] = []

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is _native.Future:
            return _fill, (self._index(obj),)
        return super().reducer_override(obj)

    def _index(self, future: Any) -> int:
        for index, known in enumerate(self.futures):
            if known is future:
                return index
        if len(self.futures) == _PARENTS_MAX:
            raise UnpicklableError(f"a call can have at most {_PARENTS_MAX} futures in its arguments")
        self.futures.append(future)
        return len(self.futures) - 1


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


def _dump(value: Any, buffers: list[Any] | None = None) -> tuple[bytes, list[Any]]:
    file = io.BytesIO()
    file.write(b"\0\0")
    pickler = _Pickler(file, buffers)
    pickler.dump(value)
    view = file.getbuffer()
    view[:2] = len(pickler.futures).to_bytes(2, "little")
    return view.tobytes(), pickler.futures


def dump_call(
    args: tuple[Any, ...], kwargs: dict[str, Any] | None, buffers: list[Any] | None = None
) -> tuple[bytes, list[Any]]:
    """Pickles the arguments of a call; gives the bytes and the futures in the order of their holes.

    Large buffers are appended to ``buffers`` instead, if it is given.

    Raises ``UnpicklableError``, which names the part that cannot be pickled.
    """
    try:
        return _dump((args, kwargs or {}), buffers)
    except Exception as error:
        named = [(f"argument {index}", value) for index, value in enumerate(args)]
        named += [(f"argument {name!r}", value) for name, value in (kwargs or {}).items()]
        raise _explained(named, error) from error


def dump_value(value: Any, buffers: list[Any] | None = None) -> bytes:
    """Pickles one value that holds no futures; ``buffers`` as above. Raises ``UnpicklableError``."""
    try:
        return _dump(value, buffers)[0]
    except Exception as error:
        raise _explained([(f"the {type(value).__qualname__}", value)], error) from error


def load(data: Any, values: dict[int, Any], buffers: Sequence[Any] = ()) -> Any:
    """Unpickles what ``dump_call`` or ``dump_value`` wrote, with ``values`` in its holes."""
    outer = getattr(_holes, "values", None)
    _holes.values = values
    try:
        return pickle.loads(memoryview(data)[2:], buffers=buffers)
    finally:
        _holes.values = outer


def _explained(named: list[tuple[str, Any]], error: Exception) -> UnpicklableError:
    for name, value in named:
        culprit = _find_culprit(name, value, depth=8)
        if culprit is not None:
            path, kind = culprit
            return UnpicklableError(f"{path} ({kind}) cannot be pickled: {error}")
    return UnpicklableError(f"the arguments cannot be pickled: {error}")


def _find_culprit(path: str, value: Any, depth: int) -> tuple[str, str] | None:
    """Walks down to the innermost part that does not pickle on its own."""
    try:
        _dump(value)
    except Exception:
        for name, part in _parts(path, value) if depth else ():
            culprit = _find_culprit(name, part, depth - 1)
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
    for name, cell in zip(getattr(code, "co_freevars", ()), getattr(value, "__closure__", None) or ()):
        parts.append((f"{path} captures {name!r}", cell.cell_contents))
    names = getattr(code, "co_names", ())
    used = getattr(value, "__globals__", {})
    parts += [(f"{path} uses the global {name!r}", used[name]) for name in names if name in used]
    return parts
