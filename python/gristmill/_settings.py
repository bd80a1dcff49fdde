"""Settings of an interpreter that a program changes while it runs, and that its workers take over."""

from __future__ import annotations

import _thread
import gc
import sys

from gristmill._when_imported import when_imported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

#: Settings, each by the function that reads it and the function that sets it.
_FUNCTIONS = (
    ("getrecursionlimit", "setrecursionlimit"),
    ("get_int_max_str_digits", "set_int_max_str_digits"),
    ("getswitchinterval", "setswitchinterval"),
    ("getdlopenflags", "setdlopenflags"),
    (
        "get_coroutine_origin_tracking_depth",
        "set_coroutine_origin_tracking_depth",
    ),
)
#: Variables of ``sys`` that the program may have set.
_VARIABLES = ("dont_write_bytecode", "pycache_prefix", "tracebacklimit")
#: Attributes of a decimal context.
_DECIMAL = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp")


def read() -> dict[str, Any]:
    """Returns the settings of this interpreter, in plain types."""
    settings: dict[str, Any] = {
        "functions": {
            change: getattr(sys, look)() for look, change in _FUNCTIONS if hasattr(sys, look)
        },
        "variables": {name: getattr(sys, name) for name in _VARIABLES if hasattr(sys, name)},
        "stack": _stack_size(),
        "gc": (gc.isenabled(), gc.get_threshold(), gc.get_debug()),
    }
    # A module that is not loaded has its defaults.
    socket = sys.modules.get("socket")
    if socket is not None and socket.getdefaulttimeout() is not None:
        settings["socket"] = float(socket.getdefaulttimeout())
    decimal = sys.modules.get("decimal")
    if decimal is not None:
        settings["decimal"] = _read_decimal(decimal)
    return settings


def _stack_size() -> int:
    """Returns the stack size of new threads. Reading it sets the default, so the size is set again."""
    size = _thread.stack_size()
    _thread.stack_size(size)
    return size


def _read_decimal(decimal: Any) -> tuple[dict[str, Any], list[str]]:
    """Returns the decimal context of this thread: its numbers, and the names of the signals that are errors."""
    context = decimal.getcontext()
    traps = [signal.__name__ for signal, is_set in context.traps.items() if is_set]
    return {name: getattr(context, name) for name in _DECIMAL}, traps


def apply(settings: dict[str, Any]) -> None:
    """Applies the settings that ``read`` found in another interpreter.

    It also lets a crash write the Python stack to standard error, whether the program has asked for that or not: the
    error of a lost worker ends with the worker's last lines.
    """
    import faulthandler

    # By its number: a worker puts another file in the place of this descriptor when it starts.
    faulthandler.enable(2)
    for change, value in settings["functions"].items():
        if hasattr(sys, change):
            getattr(sys, change)(value)
    for name, value in settings["variables"].items():
        setattr(sys, name, value)
    _thread.stack_size(settings["stack"])
    is_enabled, threshold, debug = settings["gc"]
    (gc.enable if is_enabled else gc.disable)()
    gc.set_threshold(*threshold)
    gc.set_debug(debug)
    if "socket" in settings:
        when_imported("socket", lambda socket: _set_timeout(socket, settings["socket"]))
    if "decimal" in settings:
        when_imported("decimal", lambda decimal: _set_decimal(decimal, *settings["decimal"]))


def _set_timeout(socket: Any, seconds: float) -> None:
    socket.setdefaulttimeout(seconds)


def _set_decimal(decimal: ModuleType | Any, numbers: dict[str, Any], traps: list[str]) -> None:
    context = decimal.Context(**numbers, traps=[getattr(decimal, name) for name in traps])
    decimal.setcontext(context)
