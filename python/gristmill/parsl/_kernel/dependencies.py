"""The futures among a task's arguments, and their replacement by values once they are final.

Futures are found anywhere in lists, tuples, sets and dicts. ``SHALLOW_DEPENDENCY_RESOLVER`` applies Parsl's rule, which
finds only futures that are arguments themselves or are in ``inputs``.
"""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

#: Types that cannot hold a future. They are checked first, because most arguments have one of them.
FUTURELESS_TYPES = frozenset({int, float, str, bytes, bool, type(None), complex})


@dataclass
class DependencyResolver:
    """The two functions that find dependencies in an argument and replace them.

    :param traverse_to_gather: returns the futures that an argument holds.
    :param traverse_to_unwrap: returns the argument with their values. It is called when all futures are final.
    """

    traverse_to_gather: Callable[[object], Sequence[Future[Any]]]
    traverse_to_unwrap: Callable[[object], object]


def shallow_traverse_to_gather(o: object) -> Sequence[Future[Any]]:
    """Returns a list of the argument if it is a future, else nothing."""
    return [o] if isinstance(o, Future) else ()


def shallow_traverse_to_unwrap(o: object) -> object:
    """Returns the value of an argument that is a future, else the argument."""
    return o.result() if isinstance(o, Future) else o


def _parts(value: object) -> Iterator[object]:
    kind = type(value)
    if kind in (list, tuple, set, frozenset):
        yield from value  # type: ignore[misc]
    elif kind is dict:
        for key, part in value.items():  # type: ignore[attr-defined]
            yield key
            yield part


def deep_traverse_to_gather(o: object) -> Sequence[Future[Any]]:
    """Returns all futures in an argument: in lists, tuples, sets and dicts, at any depth."""
    if type(o) in FUTURELESS_TYPES:
        return ()
    if isinstance(o, Future):
        return [o]
    found: list[Future[Any]] = []
    seen = {id(o)}
    # No recursion: a container may contain itself, or be nested deeper than the stack.
    waiting = [_parts(o)]
    while waiting:
        part = next(waiting[-1], _END)
        if part is _END:
            waiting.pop()
        elif isinstance(part, Future):
            found.append(part)
        elif type(part) not in FUTURELESS_TYPES and id(part) not in seen:
            seen.add(id(part))
            waiting.append(_parts(part))
    return found


_END = object()


def deep_traverse_to_unwrap(o: object) -> object:
    """Returns an argument with values instead of futures. A container without futures is returned itself."""
    if isinstance(o, Future):
        return o.result()
    if type(o) in FUTURELESS_TYPES or not deep_traverse_to_gather(o):
        return o
    kind = type(o)
    if kind is dict:
        return {
            deep_traverse_to_unwrap(key): deep_traverse_to_unwrap(part)
            for key, part in o.items()  # type: ignore[attr-defined]
        }
    return kind(map(deep_traverse_to_unwrap, o))  # type: ignore[call-arg, call-overload]


SHALLOW_DEPENDENCY_RESOLVER = DependencyResolver(
    shallow_traverse_to_gather, shallow_traverse_to_unwrap
)
DEEP_DEPENDENCY_RESOLVER = DependencyResolver(deep_traverse_to_gather, deep_traverse_to_unwrap)
