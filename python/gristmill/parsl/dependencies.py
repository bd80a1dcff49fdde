"""Which futures a task's arguments hold, and what takes their place once they are final.

Futures count wherever they are in lists, tuples, sets and dicts; ``SHALLOW_DEPENDENCY_RESOLVER`` gives Parsl's rule,
which sees those that are arguments themselves or in ``inputs``.
"""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

#: What cannot hold a future: asked first, because most arguments are one of these.
FUTURELESS_TYPES = frozenset({int, float, str, bytes, bool, type(None), complex})


@dataclass
class DependencyResolver:
    """How dependencies are found in an argument, and replaced in it.

    :param traverse_to_gather: gives the futures that an argument holds.
    :param traverse_to_unwrap: gives the argument with their values; called when all are final.
    """

    traverse_to_gather: Callable[[object], Sequence[Future[Any]]]
    traverse_to_unwrap: Callable[[object], object]


def _gather_shallow(value: object) -> Sequence[Future[Any]]:
    return [value] if isinstance(value, Future) else ()


def _unwrap_shallow(value: object) -> object:
    return value.result() if isinstance(value, Future) else value


def _parts(value: object) -> Iterator[object]:
    kind = type(value)
    if kind in (list, tuple, set, frozenset):
        yield from value  # type: ignore[misc]
    elif kind is dict:
        for key, part in value.items():  # type: ignore[attr-defined]
            yield key
            yield part


def _gather_deep(value: object) -> Sequence[Future[Any]]:
    if type(value) in FUTURELESS_TYPES:
        return ()
    if isinstance(value, Future):
        return [value]
    found: list[Future[Any]] = []
    seen = {id(value)}
    # Without recursion: a container may be in itself, or nested deeper than a stack.
    waiting = [_parts(value)]
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


def _unwrap_deep(value: object) -> object:
    """A container without futures stays the very object; one with some becomes a new one."""
    if isinstance(value, Future):
        return value.result()
    if type(value) in FUTURELESS_TYPES or not _gather_deep(value):
        return value
    kind = type(value)
    if kind is dict:
        return {
            _unwrap_deep(key): _unwrap_deep(part)
            for key, part in value.items()  # type: ignore[attr-defined]
        }
    return kind(map(_unwrap_deep, value))  # type: ignore[call-arg, call-overload]


SHALLOW_DEPENDENCY_RESOLVER = DependencyResolver(_gather_shallow, _unwrap_shallow)
DEEP_DEPENDENCY_RESOLVER = DependencyResolver(_gather_deep, _unwrap_deep)
