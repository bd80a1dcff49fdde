"""A cache of measured functions: an engine that has a wrapper does not send it again."""

from __future__ import annotations

import threading
import types
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from gristmill.parsl._kernel.monitoring.measure import measured

if TYPE_CHECKING:
    from collections.abc import Callable

#: Functions that capture nothing large.
_PLAIN_MAX = 256
#: Functions that may capture values, which the cache keeps alive.
_CAPTURING_MAX = 16


class MeasuredFunctions:
    """The measured wrappers of the functions that were used last."""

    def __init__(self) -> None:
        self._plain = _Wrappers(_PLAIN_MAX)
        self._capturing = _Wrappers(_CAPTURING_MAX)

    def get(self, function: Callable[..., Any], interval: float) -> Callable[..., Any]:
        """Returns a function with a measurement around it.

        :param interval: seconds between two readings of its resource use; 0 for times without readings.
        """
        wrappers = self._capturing if _may_capture(function) else self._plain
        return wrappers.get(function, interval)


class _Wrappers:
    """Wrappers, of which the least recently used is forgotten.

    :param count_max: their number.
    """

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        #: By the id of a function and the interval: the function and its wrapper.
        self._known: OrderedDict[tuple[int, float], tuple[Any, Callable[..., Any]]] = OrderedDict()
        self._lock = threading.RLock()

    def get(self, function: Callable[..., Any], interval: float) -> Callable[..., Any]:
        key, forgotten = (id(function), interval), None
        with self._lock:
            known = self._known.get(key)
            if known is None:
                known = self._known[key] = (function, measured(function, interval))
            self._known.move_to_end(key)
            if len(self._known) > self._count_max:
                forgotten = self._known.popitem(last=False)
        del forgotten  # outside the lock: finalizers of captured values may run any code
        return known[1]


def _may_capture(function: Any) -> bool:
    """Returns whether a callable may keep large values alive: a closure, a default, an attribute, or an object."""
    if isinstance(function, types.BuiltinFunctionType):
        return not isinstance(function.__self__, (types.ModuleType, type(None)))
    if not isinstance(function, types.FunctionType) or function.__closure__ or function.__dict__:
        return True
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    return not all(map(_is_small, defaults))


def _is_small(value: object) -> bool:
    if type(value) in (list, tuple, dict):
        return not value
    return value is None or isinstance(value, (bool, int, float, str))
