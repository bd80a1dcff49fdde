"""Rejection of ``async`` functions: workers run no event loop, so a coroutine would never run there."""

from __future__ import annotations

import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: ``CO_COROUTINE``, ``CO_ITERABLE_COROUTINE`` and ``CO_ASYNC_GENERATOR`` of ``inspect``, which takes long to load.
_ASYNC_FLAGS = 0x80 | 0x100 | 0x200
#: The largest depth of nested wrappers that is followed.
_DEPTH_MAX = 32


def check(function: Any, name: str = "fn") -> None:
    """Raises ``TypeError`` for a coroutine function or an async generator function, also if it is wrapped.

    :param name: the parameter that has the function.
    """
    if not is_async(function):
        return
    called = getattr(function, "__qualname__", None) or type(function).__qualname__
    raise TypeError(
        f"{name} is a coroutine function ({called}), which cannot be submitted, because workers "
        "run no event loop. Submit a function that runs the coroutine, such as `def "
        "run(*args): return asyncio.run(f(*args))`"
    )


def is_async(function: Any) -> bool:
    """Returns whether calling an object gives a coroutine or an async generator.

    Looks through functions, methods, partials and callable objects.
    """
    for _ in range(_DEPTH_MAX):
        if isinstance(function, types.FunctionType):
            return bool(function.__code__.co_flags & _ASYNC_FLAGS) or _is_marked(function)
        if isinstance(function, types.MethodType):
            function = function.__func__
        elif _is_partial(function):
            function = function.func
        else:
            call = getattr(type(function), "__call__", None)  # noqa: B004 - the class's own is looked at
            if not isinstance(call, types.FunctionType):
                return False
            function = call
    return False


def close(value: object) -> bool:
    """Closes a coroutine that a task returned, so that no warning says it was not awaited.

    Returns whether the value is a coroutine or an async generator.
    """
    if isinstance(value, types.CoroutineType):
        value.close()
        return True
    return isinstance(value, types.AsyncGeneratorType)


def _is_partial(function: object) -> bool:
    kind = type(function)
    return kind.__module__ == "functools" and kind.__name__ == "partial"


def _is_marked(function: types.FunctionType) -> bool:
    """Returns whether ``inspect.markcoroutinefunction`` has marked the function (Python 3.12 and later)."""
    return getattr(function, "_is_coroutine_mark", None) is not None
