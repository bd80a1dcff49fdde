"""Functions on buffers: the interface that rFaaS's functions have (rFaaS, section 3.2)."""

from __future__ import annotations

import sys
from typing import NamedTuple

from gristmill import _native, _options
from gristmill._errors import LibraryError, NativeError
from gristmill._interrupt import TaskInterrupted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from gristmill.native._files import LibraryFile


class Symbol:
    """A function of a library. Two threads may call it at once: calls do not hold the interpreter's lock."""

    def __init__(self, file: LibraryFile, name: str) -> None:
        self.__name__ = name
        self.__qualname__ = f"{file.name}:{name}"
        self._file = file
        self._place: int | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.__qualname__}>"

    def _unchanging_parts(self) -> tuple[Any, ...]:
        # No part of it changes, so it is pickled once.
        return ()

    def _address(self) -> int:
        if self._place is None:
            self._place = self._file.address(self.__name__)
        return self._place


class Terms(NamedTuple):
    """The terms of a function on buffers."""

    #: Bytes of the output; ``None`` for as many as the input has.
    capacity: int | None
    #: The numpy type of the output; ``None`` for that of the input.
    dtype: Any
    #: True if the output lies before memory that cannot be written.
    guards: bool
    #: True if the function has the interface of ``gristmill_call.h``.
    is_whole: bool


class Function(Symbol):
    """A function on buffers. Get one from a ``Library``.

    Its interface is ``uint32_t f(void *input, uint32_t size, void *output)``, which returns how many bytes it wrote, or
    that of ``gristmill_call.h`` (see ``Library.function``).

    Call it with a buffer: ``bytes`` or another object with a contiguous buffer gives ``bytes``, and a numpy array gives
    a one-dimensional array of the same type. ``capacity`` is the size of the output in bytes; by default that of the
    input. A function that says that it has written more has damaged its worker, which is killed then.

    It can be called in this process too, which then loads the library.
    """

    def __init__(self, file: LibraryFile, name: str, terms: Terms) -> None:
        super().__init__(file, name)
        self._terms = terms
        self._is_plain = terms.dtype is None and not terms.guards and not terms.is_whole

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._file, self.__name__, self._terms)

    def __call__(self, data: Any, /, *, capacity: int | None = None) -> Any:
        """Calls the function, and returns what it has written."""
        if capacity is None and type(data) is bytes and self._is_plain:
            address = self._place or self._address()
            return _native.call_native_bytes(address, self.__qualname__, data, self._terms.capacity)
        numpy: Any = sys.modules.get("numpy")
        is_array = numpy is not None and isinstance(data, numpy.ndarray)
        if is_array:
            data = numpy.ascontiguousarray(data)
        if capacity is None:
            capacity = self._terms.capacity
        else:
            _options.count("capacity", capacity, 0)
        if capacity is None:
            capacity = _size(self, data)
        dtype = data.dtype if is_array and self._terms.dtype is None else self._terms.dtype
        if dtype is not None and dtype.hasobject:
            raise TypeError(f"{self.__qualname__}: arrays of Python objects mean nothing to it")
        written = self._run(data, capacity)
        if dtype is None:
            return bytes(written)
        if len(written) % dtype.itemsize:
            raise LibraryError(
                f"{self.__qualname__} returned {len(written)} bytes, which is no whole number of items of type {dtype}"
            )
        return _numpy().frombuffer(written, dtype)

    def _direct_call(self) -> tuple[int, str, int | None] | None:
        """Returns the address, the name and the capacity for a worker that calls the function without Python."""
        if not self._is_plain:
            return None
        return self._address(), self.__qualname__, self._terms.capacity

    def _run(self, data: Any, capacity: int) -> Any:
        address = self._address()
        found: bytes | bytearray
        try:
            if self._terms.is_whole:
                status, found, text = _native.call_native_whole(
                    address, self.__qualname__, data, capacity
                )
                if _native.is_interrupted():
                    # The function may have learned of the interrupt before its signal came.
                    raise TaskInterrupted("the task was cancelled, or its time was over")
                if status:
                    said = f": {text}" if text else ""
                    raise NativeError(f"{self.__qualname__} returned status {status}{said}", status)
                return found
            if self._terms.guards:
                found = _native.call_native_guarded(address, self.__qualname__, data, capacity)
                return bytearray(found)
            output = bytearray(capacity)
            written = _native.call_native(address, self.__qualname__, data, output)
        except (TypeError, BufferError) as error:
            raise TypeError(
                f"{self.__qualname__}: the input must be a contiguous buffer such as bytes or a numpy array, not "
                f"{_options.shown(data)}"
            ) from error
        return memoryview(output)[:written]


def _numpy() -> Any:
    import numpy

    return numpy


def _size(function: Symbol, data: Any) -> int:
    try:
        return memoryview(data).nbytes
    except TypeError:
        raise TypeError(
            f"{function.__qualname__}: the input must be a buffer such as bytes or a numpy array, not "
            f"{_options.shown(data)}"
        ) from None
