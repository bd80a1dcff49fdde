"""Pickles of exceptions for ``_remote``: each exception by itself, exceptions inside it by their indices."""

from __future__ import annotations

from _io import BytesIO
from _pickle import Pickler, PicklingError, Unpickler, UnpicklingError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from gristmill._remote import Sent


class _Naming:
    """Mixin of the picklers of exceptions. It writes each exception inside an exception as its index."""

    outer: BaseException
    sent: Sent

    def persistent_id(self, value: Any) -> int | None:
        """Returns the index of an exception inside the one that is pickled; ``None`` for other values."""
        if (
            value is self.outer
            or not issubclass(type(value), BaseException)
            or not self.sent.takes(value)
        ):
            return None
        index = self.sent.index_of(value)
        if index is None:
            raise PicklingError("an exception that is among its own arguments")
        return index

    def reducer_override(self, value: Any) -> Any:
        """Writes a group as its class does. Libraries (tblib) register reducers that write a group's members whole."""
        if value is self.outer and type(value) in (ExceptionGroup, BaseExceptionGroup):
            return BaseException.__reduce__(value)
        override = getattr(super(), "reducer_override", None)
        return NotImplemented if override is None else override(value)


class _Plain(_Naming, Pickler):
    """Pickler for exceptions of importable classes. It needs no module that a worker has not loaded."""


def _by_value(file: BytesIO) -> Any:
    """Returns a pickler that also writes classes by value."""
    from gristmill import _pickling

    class ByValue(_Naming, _pickling.ValuePickler):
        pass

    return ByValue(file)


class _Unpickle(Unpickler):
    made: Any

    def persistent_load(self, index: Any) -> BaseException:
        if not 0 <= index < len(self.made):
            raise UnpicklingError("an exception that is missing")
        return self.made[index]  # type: ignore[no-any-return]


def load(pickled: bytes, made: list[BaseException]) -> Any:
    unpickler = _Unpickle(BytesIO(pickled))
    unpickler.made = made
    return unpickler.load()


def attempts(error: BaseException, sent: Sent) -> Iterator[Callable[[], bytes]]:
    """Yields the ways to pickle an exception, the one that needs least first."""
    for make in (_Plain, _by_value):

        def attempt(make: Any = make) -> bytes:
            file = BytesIO()
            pickler: Any = make(file)
            pickler.outer, pickler.sent = error, sent
            pickler.dump(error)
            return file.getvalue()

        yield attempt
