"""Pickles what the native encoding leaves aside: cloudpickle, with futures as holes for their values.

A pickle of ours is the number of parents as two little-endian bytes, then the bytes of protocol 5. Functions and
classes of ``__main__``, lambdas and closures go by value, everything importable by name.
"""

from __future__ import annotations

import functools
import io
import pickle
import sys
import threading
from typing import Any

import cloudpickle

from gristmill import _native
from gristmill._errors import UnpicklableError

_PARENTS_MAX = 0xFFFF
_holes = threading.local()


def _fill(index: int) -> Any:
    """Gives the value for a hole while ``load`` runs."""
    return _holes.values[index]


def _cached(function: Any, maxsize: int | None, typed: bool) -> Any:
    """Gives ``function`` a cache of its own, empty here."""
    return functools.lru_cache(maxsize, typed)(function)


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

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self.futures: list[Any] = []

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is _native.Future:
            return _fill, (self._index(obj),)
        if type(obj) is functools._lru_cache_wrapper and not _is_found_by_name(obj):
            parameters = obj.cache_parameters()
            return _cached, (obj.__wrapped__, parameters["maxsize"], parameters["typed"])
        return super().reducer_override(obj)

    def _index(self, future: Any) -> int:
        for index, known in enumerate(self.futures):
            if known is future:
                return index
        if len(self.futures) == _PARENTS_MAX:
            raise UnpicklableError(
                f"a call can have at most {_PARENTS_MAX} futures in its arguments"
            )
        self.futures.append(future)
        return len(self.futures) - 1


def _dump(value: Any) -> tuple[bytes, list[Any]]:
    file = io.BytesIO()
    file.write(b"\0\0")
    pickler = _Pickler(file)
    pickler.dump(value)
    view = file.getbuffer()
    view[:2] = len(pickler.futures).to_bytes(2, "little")
    return view.tobytes(), pickler.futures


def dump_call(args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> tuple[bytes, list[Any]]:
    """Pickles the arguments of a call; gives the bytes and the futures in the order of their holes.

    Raises ``UnpicklableError``, which names the part that cannot be pickled.
    """
    try:
        return _dump((args, kwargs or {}))
    except Exception as error:
        named = [(f"argument {index}", value) for index, value in enumerate(args)]
        named += [(f"argument {name!r}", value) for name, value in (kwargs or {}).items()]
        raise _explained(named, error) from error


def dump_value(value: Any) -> bytes:
    """Pickles one value that holds no futures. Raises ``UnpicklableError``."""
    try:
        return _dump(value)[0]
    except Exception as error:
        raise _explained([(f"the {type(value).__qualname__}", value)], error) from error


def load(data: bytes, values: dict[int, Any]) -> Any:
    """Unpickles what ``dump_call`` or ``dump_value`` wrote, with ``values`` in its holes."""
    outer = getattr(_holes, "values", None)
    _holes.values = values
    try:
        return pickle.loads(memoryview(data)[2:])
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
    for name, cell in zip(
        getattr(code, "co_freevars", ()), getattr(value, "__closure__", None) or (), strict=False
    ):
        parts.append((f"{path} captures {name!r}", cell.cell_contents))
    names = getattr(code, "co_names", ())
    used = getattr(value, "__globals__", {})
    parts += [(f"{path} uses the global {name!r}", used[name]) for name in names if name in used]
    return parts
