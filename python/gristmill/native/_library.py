"""A shared library: its file, and the functions that it exports."""

from __future__ import annotations

import difflib
import os

from gristmill import _native, _options
from gristmill._errors import LibraryError
from gristmill.native._declared import DeclaredFunction
from gristmill.native._files import LibraryFile, library_file
from gristmill.native._functions import Function, Terms
from gristmill.native._kept import Kept

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any


def include() -> str:
    """Returns the folder of ``gristmill_call.h``, for the compiler's ``-I``."""
    return os.path.join(os.path.dirname(__file__), "include")


class Library:
    """A shared library, whose functions can be those of tasks.

    :param path: the file. It is read once, when the object is made: a later version is another ``Library``, and workers
        can have both.
    :param companions: files of libraries that this one needs and that workers may lack. Each needs a ``DT_SONAME``, by
        which it is found (``-Wl,-soname,libname.so``); a path relative to the library (``$ORIGIN``) means nothing.
    :param guards: put each output, and each array that a declared function changes or fills, before memory that cannot
        be written. A function that writes past its end then dies there. This costs microseconds a call.

    ``library["f"]`` is a ``Function`` on buffers, and ``declare`` gives functions with other types. Statics of a
    library live as long as the worker. Raises ``LibraryError`` if the file is no library of this machine.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        companions: Sequence[str | os.PathLike[str]] = (),
        guards: bool = False,
    ) -> None:
        if isinstance(companions, (str, bytes, os.PathLike)):
            raise TypeError("companions must be a sequence of paths, not one path")
        self._guards = _options.flag("guards", guards)
        found = [_LibrarySource(_options.path("companions", one)) for one in companions]
        for one in found:
            if one.name is None:
                raise LibraryError(
                    f"the companion {one.file} has no DT_SONAME, by which {path} could find it: link it "
                    f"with -Wl,-soname,{one.file}"
                )
        self._path = _options.path("path", path)
        own = _LibrarySource(self._path)
        self._functions = frozenset(own.functions)
        self._variables = frozenset(own.variables)
        self._file = library_file(own.file, own.content, own.name or "", _ordered(found))

    @property
    def name(self) -> str:
        """The file's name."""
        return self._file.name

    @property
    def functions(self) -> tuple[str, ...]:
        """Names of the functions that the library exports, sorted."""
        return tuple(sorted(self._functions))

    def __getitem__(self, name: str) -> Function:
        return self.function(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.functions)

    def __len__(self) -> int:
        return len(self._functions)

    def __contains__(self, name: object) -> bool:
        return name in self._functions

    def __repr__(self) -> str:
        return f"<Library {self.name}, {len(self)} functions>"

    def function(
        self,
        name: str,
        *,
        capacity: int | None = None,
        dtype: Any = None,
        interface: str = "buffers",
        kept: Sequence[Kept] = (),
    ) -> Function:
        """Returns a function on buffers.

        :param capacity: bytes of its output; by default as many as the input has.
        :param dtype: the numpy type of its output; by default that of the input.
        :param interface: ``buffers`` for ``uint32_t f(void *input, uint32_t size, void *output)``, or ``call`` for
            ``int32_t f(gristmill_call *call)`` of ``gristmill_call.h``, which lies in the folder ``include()``. Such a
            function has 64-bit sizes, may ask for another output, for the time that its task has left, and whether it
            is to stop. If it returns a status other than 0, the task raises ``NativeError``.
        :param kept: buffers that workers keep, which the function finds in ``call->kept`` in this order. It needs the
            interface ``call``.
        """
        interface = _options.one_of("interface", interface, ("buffers", "call"))
        if not isinstance(kept, (list, tuple)) or not all(isinstance(one, Kept) for one in kept):
            raise TypeError(f"kept must be a list of Kept, not {_options.shown(kept)}")
        if kept and interface != "call":
            raise ValueError(
                'a function on buffers has an input only: pass a Kept as that, or use interface="call"'
            )
        self._check(name)
        if dtype is not None:
            import numpy

            dtype = numpy.dtype(dtype)
        capacity = _options.optional_count("capacity", capacity, 0)
        terms = Terms(capacity, dtype, self._guards, interface, tuple(kept))
        return Function(self._file, name, terms)

    def declare(self, name: str, parameters: Sequence[Any], result: Any = None) -> DeclaredFunction:
        """Returns a plain C function, which needs no other interface.

        ```python
        axpy = library.declare("axpy", [c_double, numpy.ndarray, InOut(float), c_size_t])
        changed = executor.submit(axpy, 2.0, x, y, len(x)).result()
        ```

        :param parameters: types of its parameters: numbers, texts and structures of ``ctypes``; ``numpy.ndarray`` for a
            pointer to an array that it reads; ``In``, ``InOut`` and ``Out``, which say more; a ``Kept`` for a pointer
            to its data, which calls do not pass.
        :param result: the type of its result, of ``ctypes``; ``None`` for ``void``.
        """
        self._check(name)
        return DeclaredFunction(self._file, name, parameters, result, self._guards)

    def _check(self, name: str) -> None:
        """Raises ``LibraryError`` if the library has no function of this name."""
        _options.text("the name of a function", name)
        if name in self._functions:
            return
        if name in self._variables:
            raise LibraryError(f"{name} is a variable of {self.name}, not a function")
        text = f"{self.name} has no function {name}"
        mangled = f"{len(name)}{name}"
        compiled = sorted(one for one in self._functions if one.startswith("_") and mangled in one)
        if compiled:
            text += f', but {compiled[0]}, which a C++ compiler has made: declare it extern "C"'
        elif close := difflib.get_close_matches(name, self._functions, 3):
            text += f"; it has {', '.join(close)}"
        elif not self._functions:
            text += ": it exports none"
        raise LibraryError(text)


class _LibrarySource:
    """A file on disk, and what its tables say."""

    def __init__(self, path: str) -> None:
        self.file = os.path.basename(path)
        try:
            with open(path, "rb") as opened:
                self.content = opened.read()
        except OSError as error:
            raise LibraryError(f"{path} cannot be read: {error.strerror}") from error
        try:
            self.name, self.functions, self.variables, self.needed = _native.library_tables(
                self.content
            )
        except ValueError as error:
            raise LibraryError(f"{path}: {error}") from None


def _ordered(found: list[_LibrarySource]) -> tuple[LibraryFile, ...]:
    """Returns companions as files, each behind those that it needs."""
    left = {one.name or "": one for one in found}
    if len(left) < len(found):
        raise LibraryError("two companions have the same DT_SONAME")
    made: dict[str, LibraryFile] = {}
    while left:
        free = [name for name, one in left.items() if not left.keys() & set(one.needed) - {name}]
        if not free:
            raise LibraryError(f"companions need each other: {', '.join(sorted(left))}")
        for name in free:
            one = left.pop(name)
            made[name] = library_file(one.file, one.content, name, ())
    return tuple(made.values())
