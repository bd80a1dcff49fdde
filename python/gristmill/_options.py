"""Checks of the options of every public call: an error names the option and the value.

``TypeError`` is for a value of the wrong kind, ``ValueError`` for one out of range. Numbers of other libraries, such as
numpy, count as what ``operator.index`` and ``float`` make of them. A ``bool`` is neither a count nor a time.
"""

from __future__ import annotations

import operator
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

#: Infinity. The module ``math`` would be a library of its own to load, for this alone.
_INFINITY = float("inf")
#: The largest counts in the engine's messages: two bytes, four bytes, and what memory can address.
SHORT_MAX, LONG_MAX, SIZE_MAX = 2**16 - 1, 2**32 - 1, 2**63 - 1
#: The largest priority: four bytes with a sign.
PRIORITY_MAX = 2**31 - 1
#: The longest time, seconds: the engine counts nanoseconds in eight bytes, which is five hundred years.
SECONDS_MAX = 1.8e10
#: Default limit for each step of a worker's start that runs user code, seconds.
START_SECONDS = 600.0
#: The longest polling time before a sleep, seconds.
SPIN_MAX_S = 1000.0
#: Characters of a value in a message. Longer values are cut.
_SHOWN_MAX = 80


def shown(value: object) -> str:
    """Returns the value as a message shows it: cut if it is long, its type if it cannot be shown."""
    try:
        text = repr(value)
    except Exception:  # a message must not fail because of the value that it is about
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."


def count(name: str, value: Any, least: int = 1, most: int = SIZE_MAX) -> int:
    """Returns a whole number between ``least`` and ``most``."""
    number = _index(value)
    if number is None:
        raise TypeError(f"{name} must be a whole number, not {shown(value)}")
    if not least <= number <= most:
        raise ValueError(f"{name} must be between {least} and {most}, not {shown(value)}")
    return number


def optional_count(name: str, value: Any, least: int = 1, most: int = SIZE_MAX) -> int | None:
    """Returns ``None``, or a whole number between ``least`` and ``most``."""
    return None if value is None else count(name, value, least, most)


def workers(name: str, value: Any) -> int | None:
    """Returns a number of workers, or ``None``. The first words of the error are the standard library's."""
    try:
        return optional_count(name, value, 1, SHORT_MAX)
    except ValueError:
        raise ValueError(
            f"{name} must be greater than 0 and at most {SHORT_MAX}, not {shown(value)}"
        ) from None


def number(name: str, value: Any, least: float, most: float, unit: str = "number") -> float:
    """Returns a number between ``least`` and ``most``, which is neither infinite nor NaN."""
    found = _float(value)
    if found is None:
        raise TypeError(f"{name} must be a {unit}, not {shown(value)}")
    if not (abs(found) < _INFINITY and least <= found <= most):
        raise ValueError(f"{name} must be between {least:g} and {most:g}, not {shown(value)}")
    return found


def seconds(name: str, value: Any, *, is_positive: bool = False) -> float:
    """Returns a number of seconds; with ``is_positive`` it is more than 0."""
    found = _float(value)
    if found is None:
        raise TypeError(f"{name} must be a number of seconds, not {shown(value)}")
    least = "more than 0" if is_positive else "at least 0"
    if not 0 <= found <= SECONDS_MAX or (is_positive and found == 0):
        raise ValueError(
            f"{name} must be a number of seconds, {least} and at most {SECONDS_MAX:g}, not {shown(value)}"
        )
    return found


def is_infinite(value: object) -> bool:
    """Returns whether an option is infinity. Compares floats only, because an array compares item by item."""
    return isinstance(value, float) and value == _INFINITY


def optional_seconds(name: str, value: Any, *, is_positive: bool = False) -> float | None:
    """Returns ``None``, or a time as ``seconds`` does."""
    return None if value is None else seconds(name, value, is_positive=is_positive)


def patience(value: Any, name: str = "timeout") -> float | None:
    """Returns the seconds that a call waits: 0 for a negative value, ``None`` (no limit) for ``None`` and infinity."""
    if value is None:
        return None
    found = _float(value, takes_bool=True)
    if found is None:
        raise TypeError(f"{name} must be a number of seconds or None, not {shown(value)}")
    is_right = abs(found) < _INFINITY or (abs(found) == _INFINITY and isinstance(value, float))
    if not is_right:
        raise ValueError(f"{name} must be a number of seconds or None, not {shown(value)}")
    return None if found == _INFINITY else max(0.0, found)


def flag(name: str, value: Any) -> bool:
    """Returns ``True`` or ``False``. Accepts 1, 0 and numpy's booleans as well."""
    if value is True or value is False:
        return value
    try:
        if operator.index(value) in (0, 1):
            return bool(value)
    except TypeError:
        if type(value).__name__ in ("bool", "bool_"):
            return bool(value)
    raise TypeError(f"{name} must be True or False, not {shown(value)}")


def one_of(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Returns the value, which must be one of some texts."""
    if isinstance(value, str) and value in choices:
        return value
    first = ", ".join(f'"{choice}"' for choice in choices[:-1])
    raise ValueError(f'{name} must be {first} or "{choices[-1]}", not {shown(value)}')


def text(name: str, value: Any) -> str:
    """Returns a text."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a text, not {shown(value)}")
    return value


def optional_text(name: str, value: Any) -> str | None:
    """Returns ``None``, or a text."""
    return None if value is None else text(name, value)


def path(name: str, value: Any) -> str:
    """Returns a path as a text."""
    if not isinstance(value, (str, os.PathLike)):
        raise TypeError(f"{name} must be a path, not {shown(value)}")
    found = os.fsdecode(value)
    if "\0" in found:
        raise ValueError(f"{name} must be a path without null characters, not {shown(found)}")
    return found


def texts(name: str, value: Iterable[str], what: str) -> tuple[str, ...]:
    """Returns several texts. ``what`` names them in errors, such as "module names"."""
    problem = f"{name} must be a list of {what}, not {shown(value)}"
    if isinstance(value, (str, bytes)):
        raise TypeError(problem)
    try:
        found = tuple(value)
    except TypeError:
        raise TypeError(problem) from None
    for one in found:
        if not isinstance(one, str):
            raise TypeError(
                f"{name} must be a list of {what}, not {shown(found)} with {shown(one)}"
            )
    return found


def distinct_names(name: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Returns names of which none is empty and none occurs twice. Raises ``ValueError``."""
    for place, one in enumerate(names):
        if not one.strip():
            raise ValueError(f"{name} must not be empty, as {shown(one)} of {shown(names)} is")
        if one in names[:place]:
            raise ValueError(f"{name} must differ: {shown(one)} is twice in {shown(names)}")
    return names


def command(name: str, value: Any) -> list[str]:
    """Returns the words of a command, at least one."""
    words = list(texts(name, value, "words"))
    if not words:
        raise ValueError(f"{name} must have at least one word")
    return words


def function(name: str, value: Any) -> Any:
    """Returns a callable."""
    if not callable(value):
        raise TypeError(f"{name} must be a callable, not {shown(value)}")
    return value


def map_terms(timeout: Any, chunksize: Any, buffersize: Any) -> tuple[float | None, int | None]:
    """Returns how many seconds ``map`` waits, and how many items it reads ahead; ``None`` for the default.

    The messages about sizes begin as those of the standard library.
    """
    size = _index(chunksize)
    if size is None:
        raise TypeError(f"chunksize must be a whole number, not {shown(chunksize)}")
    if size < 1:
        raise ValueError(f"chunksize must be >= 1., not {shown(chunksize)}")
    ahead = None
    if buffersize is not None:
        ahead = _index(buffersize)
        if ahead is None:
            raise TypeError(f"buffersize must be an integer or None, not {shown(buffersize)}")
        if not 1 <= ahead <= SIZE_MAX:
            raise ValueError(
                f"buffersize must be None or > 0 and at most {SIZE_MAX}, not {shown(buffersize)}"
            )
    return patience(timeout), ahead


def _index(value: Any) -> int | None:
    """Returns the whole number that a value is; ``None`` for other kinds."""
    if isinstance(value, bool) or type(value).__name__ == "bool_":
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def _float(value: Any, *, takes_bool: bool = False) -> float | None:
    """Returns the number that a value is, infinite if no float is as large; ``None`` for other kinds."""
    if isinstance(value, (str, bytes, bytearray)) or (isinstance(value, bool) and not takes_bool):
        return None
    try:
        return float(value)
    except OverflowError:
        return _INFINITY if value > 0 else -_INFINITY
    except TypeError:
        return None
