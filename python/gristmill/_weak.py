"""Sets of objects that keep none of them alive, and that can be listed while others are added.

``weakref.WeakSet`` raises ``RuntimeError`` if another thread, a signal handler or a destructor adds an object during
iteration, and ``list`` of it iterates in Python.
"""

from __future__ import annotations

import weakref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeVar

    T = TypeVar("T")


class WeakBag(weakref.WeakKeyDictionary["T", None]):
    """Objects that only other references keep alive."""

    def add(self, one: T) -> None:
        """Adds an object. Does nothing if it is there already."""
        self[one] = None

    def discard(self, one: T) -> None:
        """Removes an object, if it is there."""
        self.pop(one, None)

    def __iter__(self) -> Iterator[T]:
        """Iterates over the objects that are there now."""
        # One operation that no other thread can interrupt.
        references = self.keyrefs()
        return (one for reference in references if (one := reference()) is not None)
