"""Which arguments and results are transformed."""

from __future__ import annotations

import fnmatch
import pickle
import sys
from abc import abstractmethod
from typing import Annotated, Any, ClassVar

from pydantic import Field

from gristmill.bench.plugins import Kind, Plugin

#: Bytes; more than any object has if not given.
Size = Annotated[int, Field(ge=0)]


class FilterPlugin(Plugin):
    """Picks objects: called with one it says whether it is picked. Workers have it too."""

    kind: ClassVar[Kind] = "filter"

    @abstractmethod
    def __call__(self, value: Any) -> bool:
        """Whether that object is picked."""


class Never(FilterPlugin):
    """Picks nothing."""

    def __call__(self, value: Any) -> bool:
        """It is not."""
        return False


class Always(FilterPlugin):
    """Picks everything."""

    def __call__(self, value: Any) -> bool:
        """It is."""
        return True


class ObjectSize(FilterPlugin):
    """Picks what ``sys.getsizeof`` says is large enough: what an object holds does not count."""

    least: Size = 0
    most: Size = sys.maxsize

    def __call__(self, value: Any) -> bool:
        """Whether its size is between the bounds."""
        return self.least <= sys.getsizeof(value) <= self.most


class PickledSize(FilterPlugin):
    """Picks what is large enough when it is pickled, which costs a pickling of each object."""

    least: Size = 0
    most: Size = sys.maxsize

    def __call__(self, value: Any) -> bool:
        """Whether its pickle is between the bounds."""
        return self.least <= len(pickle.dumps(value, protocol=5)) <= self.most


class ObjectType(FilterPlugin):
    """Picks what is of a type, named like ``numpy.ndarray`` or ``numpy.*``."""

    patterns: tuple[str, ...]

    def __call__(self, value: Any) -> bool:
        """Whether a pattern matches the name of its type."""
        kind = type(value)
        name = f"{kind.__module__}.{kind.__qualname__}"
        return any(fnmatch.fnmatchcase(name, one) for one in self.patterns)
