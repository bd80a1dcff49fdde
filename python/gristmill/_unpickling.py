"""Reader of the pickles of ``_pickling``, in a module of its own: every worker reads pickles, few write any."""

from __future__ import annotations

from _pickle import loads
from _thread import _local

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

#: Bytes of the number of parents, in front of a pickle.
COUNT_SIZE = 4

_holes = _local()


def load(data: Any, values: dict[int, Any], buffers: Sequence[Any] = ()) -> Any:
    """Unpickles what ``dump_call`` or ``dump_value`` wrote, with ``values`` in its holes."""
    outer = getattr(_holes, "values", None)
    _holes.values = values
    try:
        return loads(memoryview(data)[COUNT_SIZE:], buffers=buffers)
    finally:
        _holes.values = outer


def fill(index: int) -> Any:
    """Returns the value for a hole while ``load`` runs."""
    return _holes.values[index]


def cached(function: Any, maxsize: int | None, typed: bool) -> Any:
    """Returns ``function`` with a cache of its own, which is empty here."""
    from functools import lru_cache

    return lru_cache(maxsize, typed)(function)
