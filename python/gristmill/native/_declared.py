"""Plain C functions, called with the types that the program declares."""

from __future__ import annotations

import ctypes
import operator
from dataclasses import dataclass

from gristmill import _native, _options
from gristmill.native._functions import Symbol
from gristmill.native._kept import Kept

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from gristmill.native._files import LibraryFile

#: The base class of ctypes' numbers, texts and pointers.
_Simple: type = ctypes.c_int.__mro__[1]
_INTEGERS = (
    *(ctypes.c_byte, ctypes.c_short, ctypes.c_int, ctypes.c_long, ctypes.c_longlong),
    *(ctypes.c_ubyte, ctypes.c_ushort, ctypes.c_uint, ctypes.c_ulong, ctypes.c_ulonglong),
)
#: Types whose values mean something in their own process only.
_FOREIGN = (ctypes.c_void_p, ctypes.py_object)
#: Parts of a structure that point to something outside it.
_POINTERS = (
    *(ctypes.c_char_p, ctypes.c_wchar_p, ctypes.c_void_p, ctypes.py_object),
    *(ctypes._Pointer, ctypes._CFuncPtr),  # type: ignore[attr-defined]
)


@dataclass(frozen=True)
class _Array:
    """A pointer to the first item of an array, whose items have this numpy type."""

    dtype: Any


@dataclass(frozen=True)
class In(_Array):
    """Parameter for an array that the function reads: a pointer to its first item.

    :param dtype: the numpy type of the items, which an argument must have; ``None`` for any.
    """

    dtype: Any = None


@dataclass(frozen=True)
class InOut(_Array):
    """Parameter for an array that the function changes. It gets a copy, which the call returns.

    :param dtype: the numpy type of the items, which an argument must have; ``None`` for any.
    """

    dtype: Any = None


@dataclass(frozen=True)
class Out(_Array):
    """Parameter for an array that the function fills. The argument is its length or shape; the call returns it.

    :param dtype: the numpy type of the items. They are zero when the function is called.
    """


class DeclaredFunction(Symbol):
    """A C function with declared types. Get one from ``Library.declare``.

    A call returns the function's result, the arrays of its ``InOut`` and ``Out`` parameters in their order, or a tuple
    of both if there is more than one.
    """

    def __init__(
        self, file: LibraryFile, name: str, parameters: Sequence[Any], result: Any, guards: bool
    ) -> None:
        super().__init__(file, name)
        self._guards = guards
        self._parameters = tuple(_parameter(self, one) for one in parameters)
        self._argument_count = sum(not isinstance(one, Kept) for one in self._parameters)
        if result is not None:
            _check_type(self, result)
        self._result = result
        self._call: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        terms = (self._parameters, self._result, self._guards)
        return type(self), (self._file, self.__name__, *terms)

    def __call__(self, *arguments: Any) -> Any:
        """Calls the function."""
        if len(arguments) != self._argument_count:
            raise TypeError(
                f"{self.__qualname__} takes {self._argument_count} arguments, not {len(arguments)}"
            )
        if self._call is None:
            types = [
                ctypes.c_void_p if isinstance(one, (_Array, Kept)) else one
                for one in self._parameters
            ]
            self._call = ctypes.CFUNCTYPE(self._result, *types)(self._address())
        # The function has addresses only: this list keeps the arrays alive until it returns.
        held: list[Any] = []
        passed, returned = [], []
        number = 0
        for parameter in self._parameters:
            if isinstance(parameter, Kept):
                passed.append(parameter._address())
                continue
            argument = arguments[number]
            number += 1
            try:
                value = _passed(parameter, argument, self._guards)
            except (TypeError, OverflowError, ValueError, MemoryError) as error:
                raise _named(error, f"{self.__qualname__}: argument {number}") from None
            if isinstance(parameter, _Array):
                held.append(value)
                passed.append(value.ctypes.data)
                if not isinstance(parameter, In):
                    returned.append(value)
            else:
                passed.append(value)
        result = self._call(*passed)
        if self._guards:
            returned = [array.copy() for array in returned]
        values = ([] if self._result is None else [result]) + returned
        return values[0] if len(values) == 1 else tuple(values) if values else None


def _named(error: Exception, where: str) -> Exception:
    """Returns an error like this one that says where."""
    kinds = (TypeError, OverflowError, ValueError, MemoryError)
    kind = next(one for one in kinds if isinstance(error, one))
    return kind(f"{where}: {error}")


def _guarded_zeros(like: Any) -> Any:
    """Returns an array of zeros, of an array's type and shape, in memory before such that cannot be written."""
    import numpy

    memory: Any = _native.GuardedMemory(like.nbytes)
    return numpy.frombuffer(memory, like.dtype).reshape(like.shape)


def _parameter(function: Symbol, declared: Any) -> Any:
    """Checks a declared parameter; returns it in the one form that calls know."""
    import numpy

    if declared is numpy.ndarray:
        return In()
    if isinstance(declared, Kept):
        return declared
    if isinstance(declared, _Array):
        if declared.dtype is None:
            if isinstance(declared, Out):
                raise TypeError(f"{function.__qualname__}: Out needs the type of its items")
            return declared
        dtype = numpy.dtype(declared.dtype)
        if dtype.hasobject:
            raise TypeError(f"{function.__qualname__}: items of type object mean nothing to it")
        return type(declared)(dtype)
    _check_type(function, declared)
    return declared


def _check_type(function: Symbol, declared: Any) -> None:
    is_value = isinstance(declared, type) and issubclass(
        declared, (_Simple, ctypes.Structure, ctypes.Union)
    )
    if not is_value:
        raise TypeError(
            f"{function.__qualname__}: a type is one of ctypes, such as c_double, or for parameters numpy.ndarray, In, "
            f"InOut, Out or a Kept; not {_options.shown(declared)}"
        )
    if issubclass(declared, _FOREIGN):
        raise TypeError(
            f"{function.__qualname__}: a {declared.__name__} means nothing in another process. Pass arrays as "
            "numpy.ndarray, In, InOut or Out; keep other data in the library"
        )
    if pointer := _pointer_in(declared):
        raise TypeError(
            f"{function.__qualname__}: {declared.__name__} has a pointer in {pointer}, which means nothing in another "
            "process"
        )


def _pointer_in(declared: Any) -> str | None:
    """Returns the path of the first field of a structure that points outside it, such as ``.table.next``."""
    if issubclass(declared, ctypes.Array):
        inner = declared._type_
        found = "" if issubclass(inner, _POINTERS) else _pointer_in(inner)
        return None if found is None else f"[]{found}"
    for base in getattr(declared, "__mro__", ()):
        for name, kind, *_ in base.__dict__.get("_fields_", ()):
            if issubclass(kind, _POINTERS):
                return f".{name}"
            if found := _pointer_in(kind):
                return f".{name}{found}"
    return None


def _passed(parameter: Any, argument: Any, guards: bool) -> Any:
    """Converts an argument to what the function gets: a number, a text, a structure, or the array that it points to."""
    if isinstance(parameter, _Array):
        return _array(parameter, argument, guards)
    if isinstance(argument, parameter):
        return argument
    if issubclass(parameter, _INTEGERS):
        number = operator.index(argument)
        if parameter(number).value != number:
            raise OverflowError(f"{number} does not fit into {parameter.__name__}")
        return number
    if issubclass(parameter, (ctypes.c_float, ctypes.c_double, ctypes.c_longdouble)):
        return float(argument)
    if issubclass(parameter, _Simple):
        try:
            # As the call will do it: it takes fewer types than the constructor does.
            parameter.from_param(argument)
        except (TypeError, ValueError) as error:
            raise TypeError(f"{error}, not {_options.shown(argument)}") from None
        return argument
    raise TypeError(f"it must be a {parameter.__name__}, not {_options.shown(argument)}")


def _array(parameter: _Array, argument: Any, guards: bool) -> Any:
    import numpy

    if isinstance(parameter, Out):
        if guards:
            # Its memory is not touched: it only says how large the output is.
            return _guarded_zeros(numpy.empty(argument, parameter.dtype))
        return numpy.zeros(argument, parameter.dtype)
    if isinstance(argument, Kept):
        argument = argument.array
    if not isinstance(argument, numpy.ndarray):
        raise TypeError(f"it must be a numpy array, not {_options.shown(argument)}")
    if parameter.dtype is None and not argument.dtype.isnative:
        raise TypeError(
            f"it is an array of {argument.dtype.str}, whose byte order is not this machine's: declare that type if the "
            "function expects it, or convert the array"
        )
    if parameter.dtype is not None and argument.dtype != parameter.dtype:
        raise TypeError(f"it is an array of {argument.dtype}, but {parameter.dtype} is declared")
    if argument.dtype.hasobject:
        raise TypeError("arrays of Python objects mean nothing to it")
    if isinstance(parameter, In):
        return numpy.ascontiguousarray(argument)
    if guards:
        copy = _guarded_zeros(argument)
        copy[...] = argument
        return copy
    return numpy.array(argument, order="C")
