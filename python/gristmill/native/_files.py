"""The files of a library, and what this process has loaded of them.

A file is loaded from memory, so it needs no folder that workers can write to or execute from, and two versions of one
library are two libraries. It stays loaded until the process ends: whether ``dlclose`` unloads a library depends on the
library.
"""

from __future__ import annotations

import ctypes
import itertools
import operator
import os
import tempfile
import threading
import weakref
from _pickle import PickleBuffer
from contextlib import suppress

try:
    # Not through hashlib, which loads OpenSSL.
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

from gristmill import _creation_sites, _loading
from gristmill._dependencies import Dependency
from gristmill._errors import LibraryError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, SupportsIndex

#: Lets a file in memory be executed; kernels before 6.3 do not know it, and let each be executed.
_MFD_EXEC = 0x0010

#: The files that this process knows, by digest and name.
_known: weakref.WeakValueDictionary[tuple[bytes, str], LibraryFile] = weakref.WeakValueDictionary()
#: The libraries that this process has loaded, by digest.
_loaded: dict[bytes, ctypes.CDLL] = {}
#: Digests of the companions among them, by the name by which libraries need them.
_companions: dict[str, bytes] = {}
#: Numbers the loads, for paths that differ.
_numbers = itertools.count()
#: Held while a library is loaded: two threads that need one at once load it once.
_lock = threading.RLock()


def _renew_lock() -> None:
    """Replaces the lock in a forked process, where the thread that may hold it does not exist."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_renew_lock)


class LibraryFile(Dependency):
    """A library in memory, with the libraries that it needs and brings along. Get one from ``library_file``.

    Functions and arguments name it by a digest, so its bytes travel once. A result holds its bytes, like those of a
    large array.

    :param name: the file's name, for messages.
    :param content: the file's bytes.
    :param needed_as: the name by which other libraries need it.
    :param companions: files that it needs, each behind those that it needs itself.
    """

    def __init__(
        self, name: str, content: bytes, needed_as: str, companions: tuple[LibraryFile, ...]
    ) -> None:
        self.name = name
        self.content = content
        self.needed_as = needed_as
        self.companions = companions
        parts = (content, *(one.content_digest for one in companions))
        self.content_digest: bytes = blake2b(b"".join(map(_digest, parts)), digest_size=16).digest()

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        content = PickleBuffer(self.content) if operator.index(protocol) >= 5 else self.content
        terms = (self.content_digest, self.name, content, self.needed_as, self.companions)
        return _arrive, terms

    def reduced(self) -> tuple[Any, ...]:
        names = f"{self.name}\0{self.needed_as}".encode(errors="surrogateescape")
        return _receive, (names, self.content, self.companions)

    def prepare(self) -> None:
        """Loads it into a worker: loading belongs to the task that needs it."""
        if _creation_sites.is_worker():
            self.load()

    def load(self) -> ctypes.CDLL:
        """Loads the library into this process, once. Raises ``LibraryError``."""
        with _lock:
            found = _loaded.get(self.content_digest)
            if found is None:
                with _loading.Load(f"loading library {self.name}", "to load a library"):
                    for one in self.companions:
                        one._load_as_companion(self.name)
                    found = _loaded[self.content_digest] = self._open()
            return found

    def address(self, symbol: str) -> int:
        """Returns the address of a function in this process."""
        try:
            function = self.load()[symbol]
        except AttributeError:
            raise LibraryError(f"{self.name} has no function {symbol} here") from None
        return ctypes.cast(function, ctypes.c_void_p).value or 0

    def _load_as_companion(self, needs: str) -> None:
        loaded = _companions.get(self.needed_as)
        if loaded not in (None, self.content_digest):
            raise LibraryError(
                f"{needs} brings {self.name} along, of which this process has loaded another version for another "
                "library: link it statically, or use the two libraries in executors of their own"
            )
        self.load()
        _companions[self.needed_as] = self.content_digest

    def _open(self) -> ctypes.CDLL:
        try:
            with suppress(OSError):
                return self._open_in_memory()
            # The kernel refuses to execute files in memory, or the library has an error, which is raised now.
            return self._open_on_disk()
        except OSError as error:
            raise LibraryError(self._explained(str(error))) from None

    def _open_in_memory(self) -> ctypes.CDLL:
        try:
            descriptor = os.memfd_create(self.name[:200], os.MFD_CLOEXEC | _MFD_EXEC)
        except OSError:
            descriptor = os.memfd_create(self.name[:200], os.MFD_CLOEXEC)
        try:
            _write(descriptor, self.content)
            # The linker takes a path that it has seen for the library that it has loaded from there, and descriptors
            # get the same numbers again. So each path is spelled in a way of its own.
            path = f"/proc/self/fd/{'./' * next(_numbers)}{descriptor}"
            return ctypes.CDLL(path, mode=os.RTLD_NOW)
        finally:
            os.close(descriptor)

    def _open_on_disk(self) -> ctypes.CDLL:
        with tempfile.NamedTemporaryFile(prefix="gristmill-", suffix=".so") as file:
            _write(file.fileno(), self.content)
            return ctypes.CDLL(file.name, mode=os.RTLD_NOW)

    def _explained(self, said: str) -> str:
        """Makes a message of one of the dynamic linker, which names the file's path."""
        path, _, reason = said.partition(": ")
        if reason.startswith("cannot open shared object file"):
            return (
                f"{self.name} needs {path}, which is not on this machine: install it there, or give it to Library as "
                "one of its companions"
            )
        return f"{self.name} cannot be loaded: {reason or said}"


def library_file(
    name: str, content: bytes, needed_as: str, companions: tuple[LibraryFile, ...]
) -> LibraryFile:
    """Returns the file of these bytes: the one that this process has, if it has one of this name."""
    file = LibraryFile(name, content, needed_as, companions)
    with _lock:
        return _known.setdefault((file.content_digest, name), file)


def _arrive(
    digest: bytes,
    name: str,
    content: Any,
    needed_as: str,
    companions: tuple[LibraryFile, ...],
) -> LibraryFile:
    """Returns a file that was pickled in an argument or a result. A worker loads it at once.

    :param content: a buffer of the file's bytes.
    """
    file = _known.get((digest, name))
    if file is None:
        file = library_file(name, bytes(content), needed_as, companions)
    file.prepare()
    return file


def _receive(names: bytes, content: bytes, companions: tuple[LibraryFile, ...]) -> LibraryFile:
    """Returns a file that functions name."""
    name, _, needed_as = names.decode(errors="surrogateescape").partition("\0")
    return library_file(name, content, needed_as, companions)


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=16).digest()


def _write(descriptor: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
