"""Functions on buffers: the interface that rFaaS's functions have (rFaaS, section 3.2)."""

from __future__ import annotations

import sys
from typing import NamedTuple

from gristmill import _native, _options
from gristmill._errors import LibraryError, NativeError
from gristmill._interrupt import TaskInterrupted
from gristmill.native._kept import Kept

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
    #: ``buffers``, or ``call`` for that of ``gristmill_call.h``.
    interface: str
    #: Buffers that it has besides its input.
    kept: tuple[Kept, ...] = ()


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
        has_buffers = terms.interface == "buffers"
        self._is_plain = has_buffers and terms.dtype is None and not terms.guards

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._file, self.__name__, self._terms)

    def __call__(self, data: Any, /, *, capacity: int | None = None) -> Any:
        """Calls the function, and returns what it has written."""
        if type(data) is Kept:
            data = data._buffer()
        if capacity is None and type(data) is bytes and self._is_plain:
            address = self._place or self._address()
            return _native.call_native_bytes(address, self.__qualname__, data, self._terms.capacity)
        loaded: Any = sys.modules.get("numpy")
        is_array = loaded is not None and isinstance(data, loaded.ndarray)
        if is_array:
            data = loaded.ascontiguousarray(data)
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
        import numpy

        return numpy.frombuffer(written, dtype)

    def _direct_call(self) -> tuple[int, str, int | None] | None:
        """Returns the address, the name and the capacity for a worker that calls the function without Python."""
        if not self._is_plain:
            return None
        return self._address(), self.__qualname__, self._terms.capacity

    def _run(self, data: Any, capacity: int) -> Any:
        """Returns what the function wrote."""
        address = self._address()
        try:
            output = _native.GuardedMemory(capacity) if self._terms.guards else bytearray(capacity)
        except MemoryError:
            raise MemoryError(
                f"{self.__qualname__}: there is no memory for an output of {capacity} bytes"
            ) from None
        try:
            if self._terms.interface == "call":
                return self._run_with_handle(address, data, output)
            written = _native.call_native(address, self.__qualname__, data, output)
        except (TypeError, BufferError) as error:
            raise TypeError(
                f"{self.__qualname__}: the input must be a contiguous buffer such as bytes or a numpy array, not "
                f"{_options.shown(data)}"
            ) from error
        return self._first(output, written)

    def _run_with_handle(self, address: int, data: Any, output: Any) -> Any:
        kept = tuple(one._content for one in self._terms.kept)
        status, written, own, text = _native.call_native_by_handle(
            address, self.__qualname__, data, output, kept, self._terms.guards
        )
        if _native.is_interrupted():
            # The function may have learned of the interrupt before its signal came.
            raise TaskInterrupted("the task was cancelled, or its time was over")
        if status:
            said = f": {text}" if text else ""
            raise NativeError(f"{self.__qualname__} returned status {status}{said}", status)
        return self._first(output, written) if own is None else own

    def _first(self, output: Any, written: int) -> Any:
        """Returns the first bytes of an output, in memory that is not guarded."""
        found = memoryview(output)[:written]
        return bytearray(found) if self._terms.guards else found


def _size(function: Symbol, data: Any) -> int:
    try:
        return memoryview(data).nbytes
    except TypeError:
        raise TypeError(
            f"{function.__qualname__}: the input must be a buffer such as bytes or a numpy array, not "
            f"{_options.shown(data)}"
        ) from None
