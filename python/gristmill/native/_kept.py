"""Buffers that workers keep: each travels to a worker once, and functions name it by a digest of its bytes."""

from __future__ import annotations

import ctypes
import pickle
import sys
from _pickle import PickleBuffer

from gristmill import _native, _options
from gristmill._dependencies import Dependency
from gristmill._weak import WeakBag

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, SupportsIndex

#: The part of memory that the buffers may take in all workers together, if there is one worker for each CPU.
_MEMORY_SHARE = 8

#: The buffers that this process has made.
_made: WeakBag[Kept] = WeakBag()


class Kept(Dependency):
    """Bytes or an array that workers keep, so that the calls of a native function need not carry them.

    ```python
    matrix = Kept(numpy.eye(1000))
    product = library.declare("product", [matrix, In(float), Out(float), c_size_t])
    with gristmill.Executor() as executor:
        results = [executor.submit(product, x, 1000, 1000) for x in vectors]
    ```

    :param data: ``bytes`` or another object with a contiguous buffer, or a numpy array. It is copied: later changes of
        the array do not count.
    :param name: a name for messages.

    A function that has one, among the parameters of ``Library.declare``, in ``kept`` of ``Library.function``, because
    it captures one, or as an argument, gets it from its worker. A worker, and each node, is sent it with the first task
    that needs it, and drops it when the program has dropped the buffer and the functions that have it, and submits
    another task. A result that holds one has its bytes.

    All that a program holds may take an eighth of memory, divided by the number of CPUs, since each worker has a copy;
    beyond that this raises ``MemoryError``.
    """

    def __init__(self, data: Any, name: str = "") -> None:
        name = _options.text("name", name)
        loaded: Any = sys.modules.get("numpy")
        if loaded is not None and isinstance(data, loaded.ndarray):
            if data.dtype.hasobject:
                raise TypeError("a kept array of Python objects means nothing to a native function")
            dtype, shape, view = pickle.dumps(data.dtype, 5), data.shape, data
        else:
            try:
                view = memoryview(data)
            except TypeError:
                raise TypeError(
                    f"the data must be a buffer such as bytes or a numpy array, not {_options.shown(data)}"
                ) from None
            dtype, shape = b"", (view.nbytes,)
        _check_room(view.nbytes)
        self._set(name, view.tobytes(), dtype, shape)
        _made.add(self)

    def _set(self, name: str, content: bytes, dtype: bytes, shape: tuple[int, ...]) -> None:
        self.name = name or "kept buffer"
        self._content = content
        #: The pickled type of an array's items; empty for bytes.
        self._dtype = dtype
        self._shape = shape

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        content = PickleBuffer(self._content) if protocol.__index__() >= 5 else self._content
        return _receive, (_encoded(self.name), content, self._dtype, self._shape)

    def reduced(self) -> tuple[Any, ...]:
        return _receive, (_encoded(self.name), self._content, self._dtype, self._shape)

    def _unchanging_parts(self) -> tuple[Any, ...]:
        # No part of it changes, so functions that capture it are pickled once.
        return ()

    def __repr__(self) -> str:
        return f"<Kept {self.name}, {self.nbytes} bytes>"

    @property
    def nbytes(self) -> int:
        """Number of bytes."""
        return len(self._content)

    @property
    def array(self) -> Any:
        """A read-only numpy array of the data, over the same memory; one of ``uint8`` if it was no array."""
        import numpy

        dtype = pickle.loads(self._dtype) if self._dtype else numpy.dtype("u1")
        return numpy.frombuffer(self._content, dtype).reshape(self._shape)

    def _address(self) -> int:
        """Returns the address of the first byte, for as long as the object lives."""
        return ctypes.cast(ctypes.c_char_p(self._content), ctypes.c_void_p).value or 0

    def _buffer(self) -> Any:
        """Returns it as an input of a function on buffers: an array, or bytes."""
        return self.array if self._dtype else self._content


def _encoded(name: str) -> bytes:
    return name.encode(errors="surrogatepass")


def _check_room(size: int) -> None:
    """Raises ``MemoryError`` if the workers would have no room for that many more bytes."""
    limit = _native.memory_sizes()[0] // _MEMORY_SHARE // _native.cpu_count()
    held = sum(one.nbytes for one in _made)
    if held + size > limit:
        raise MemoryError(
            f"a kept buffer of {size} bytes, beside others of {held} bytes: each worker has a copy, and they may take "
            f"{limit} bytes together, which is an eighth of memory for the workers of all CPUs"
        )


def _receive(name: bytes, content: Any, dtype: bytes, shape: tuple[int, ...]) -> Kept:
    """Returns a buffer that another process has made."""
    kept = Kept.__new__(Kept)
    kept._set(name.decode(errors="surrogatepass"), bytes(content), dtype, shape)
    return kept
