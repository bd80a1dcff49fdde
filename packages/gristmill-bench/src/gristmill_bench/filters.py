"""Filters: they pick the arguments and results that are transformed."""

from __future__ import annotations

import fnmatch
import pickle
import sys
from abc import abstractmethod
from typing import Annotated, Any, ClassVar

from pydantic import Field

from gristmill_bench.plugins import Kind, Plugin

#: A bound in bytes; the default upper bound is larger than any object.
Size = Annotated[int, Field(ge=0)]


class FilterPlugin(Plugin):
    """A filter: called with an object, it returns whether it picks the object. Workers have it too."""

    kind: ClassVar[Kind] = "filter"

    @abstractmethod
    def __call__(self, value: Any) -> bool:
        """Returns whether the filter picks the object."""


class Never(FilterPlugin):
    """Filter that picks nothing."""

    def __call__(self, value: Any) -> bool:
        """Returns false."""
        return False


class Always(FilterPlugin):
    """Filter that picks everything."""

    def __call__(self, value: Any) -> bool:
        """Returns true."""
        return True


class ObjectSize(FilterPlugin):
    """Filter by ``sys.getsizeof``, which does not count the objects that an object holds."""

    least: Size = 0
    most: Size = sys.maxsize

    def __call__(self, value: Any) -> bool:
        """Returns whether the size of the object is between the bounds."""
        return self.least <= sys.getsizeof(value) <= self.most


class PickledSize(FilterPlugin):
    """Filter by the size of the pickled object, which costs a pickling of each object."""

    least: Size = 0
    most: Size = sys.maxsize

    def __call__(self, value: Any) -> bool:
        """Returns whether the size of the pickled object is between the bounds."""
        return self.least <= len(pickle.dumps(value, protocol=5)) <= self.most


class ObjectType(FilterPlugin):
    """Filter by type; patterns are such as ``numpy.ndarray`` or ``numpy.*``."""

    patterns: tuple[str, ...]

    def __call__(self, value: Any) -> bool:
        """Returns whether a pattern matches the name of the object's type."""
        kind = type(value)
        name = f"{kind.__module__}.{kind.__qualname__}"
        return any(fnmatch.fnmatchcase(name, one) for one in self.patterns)
