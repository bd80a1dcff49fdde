"""Exceptions of the surface fuzzer whose special methods refuse, and the check that the caller learns of them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NoReturn

#: Base classes. None of them has a meaning for a waiting program, as a timeout or a cancellation has.
BASES: tuple[type[BaseException], ...] = (
    Exception,
    ValueError,
    KeyError,
    OSError,
    ImportError,
    SyntaxError,
    ArithmeticError,
    StopIteration,
    GeneratorExit,
    BaseException,
)
#: Methods and attributes that an exception may refuse, one or several of them.
REFUSED = (
    "__str__",
    "__repr__",
    "__reduce__",
    "__reduce_ex__",
    "__getstate__",
    "__setstate__",
    "__eq__",
    "__hash__",
    "__bool__",
    "__setattr__",
    "__delattr__",
    "__getattribute__",
    "__dir__",
    "__format__",
    "__sizeof__",
    "with_traceback",
    "add_note",
    "args",
    "__class__",
    "__dict__",
    "__notes__",
    "__module__",
    "__doc__",
)


class Refused(Exception):
    """The exception of a method that refuses."""


def _refuse(*_arguments: Any, **_named: Any) -> NoReturn:
    raise Refused


class _Unsendable:
    """A value that cannot be pickled and has no text."""

    __reduce_ex__ = __repr__ = _refuse  # type: ignore[assignment]


def name_of(seed: int) -> str:
    """Returns the name of the class of ``odd_error``."""
    return f"Odd{seed}"


def odd_error(seed: int) -> BaseException:
    """Returns an exception of a class of its own, made as the seed decides."""
    draw = random.Random(seed)
    members: dict[str, Any] = {}
    for name in draw.sample(REFUSED, draw.randrange(3)):
        is_method = draw.random() < 0.7
        members[name] = _refuse if is_method else property(_refuse)
    if draw.random() < 0.2:
        members["__slots__"] = ("value",)
    if draw.random() < 0.2:

        def initialize(self: BaseException, *, needed: int) -> None:
            BaseException.__init__(self, needed)

        members["__init__"] = initialize
    made = type(name_of(seed), (draw.choice(BASES),), members)
    values: list[Any] = ["text", "\ud800", b"\xff", 10**5000, _Unsendable(), made, lambda: 1]
    arguments = [draw.choice(values) for _ in range(draw.randrange(3))]
    if "__init__" in members:
        error: BaseException = made(needed=1)
    elif made.__base__ is SyntaxError:
        error = made("text")  # it reads its arguments
    else:
        error = made(*arguments)
    if draw.random() < 0.2:
        cause = draw.choice((error, ValueError(_Unsendable()), Refused()))
        BaseException.__dict__["__cause__"].__set__(error, cause)
    return error


def raise_odd(seed: int) -> NoReturn:
    """Raises ``odd_error``, perhaps while another exception is handled, or within a group."""
    error = odd_error(seed)
    draw = random.Random(seed + 1)
    if draw.random() < 0.2 and issubclass(type(error), Exception):
        raise ExceptionGroup(name_of(seed), [error])
    if draw.random() < 0.3:
        try:
            _refuse()
        except Refused:
            raise error  # noqa: B904 - the context is part of the trial
    raise error


def _texts(error: BaseException | None) -> list[str]:
    """Returns what a traceback shows of an exception, whatever the exception refuses."""
    texts: list[str] = []
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        texts.append(type.__getattribute__(type(error), "__name__"))
        asked: tuple[Callable[[BaseException], str], ...] = (str, repr)
        for ask in asked:
            try:
                texts.append(ask(error))
            except BaseException:
                continue
        error = BaseException.__dict__["__cause__"].__get__(error)
    return texts


def is_told(error: BaseException, seed: int) -> bool:
    """Returns whether an exception that a task's future has is, names or is caused by that of ``raise_odd``."""
    return any(name_of(seed) in text for text in _texts(error))
