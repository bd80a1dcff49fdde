"""``map`` of every executor: of a program or a lease, of a task, and with options."""

from __future__ import annotations

from gristmill import _options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, TypeVar

    R = TypeVar("R")

#: Items of a map that are submitted ahead: enough to keep a node busy, few enough to stay in its caches.
WINDOW = 16_384


class MapTerms:
    """The checked arguments of one ``map``, besides the function and the iterables."""

    __slots__ = ("is_bounded", "is_ordered", "timeout", "window")

    def __init__(self, timeout: Any, chunksize: Any, buffersize: Any, ordered: Any) -> None:
        #: Seconds after which waiting for a result fails; ``None`` for no limit.
        self.timeout, size = _options.map_terms(timeout, chunksize, buffersize)
        #: The number of items that are submitted ahead.
        self.window = WINDOW if size is None else size
        #: True if the caller did not choose the window, so that the bytes of its items are limited, too.
        self.is_bounded = size is None
        self.is_ordered = _options.flag("ordered", ordered)


class Mapper:
    """The base class of what has a ``map``."""

    __slots__ = ()

    def map(
        self,
        fn: Callable[..., R],
        /,
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
        buffersize: int | None = None,
        ordered: bool = True,
        progress: bool = False,
    ) -> Iterator[R]:
        """Applies ``fn`` to the items of the iterables, like the built-in ``map``. Results come in order.

        Each item is a task of its own, however items are batched inside. ``chunksize`` is accepted and has no effect.

        :param timeout: seconds from this call after which waiting for a result raises ``TimeoutError``.
        :param buffersize: the number of items that may be submitted ahead of the requested result; by default 16,384,
            so infinite iterables work. Even if no result is requested, the map of a program runs all of its items, at
            the latest when it is dropped or the executor is shut down. Inside a task, dropping a map cancels its tasks
            that have not started.
        :param ordered: ``False`` returns results in the order of completion.
        :param progress: shows a progress bar on standard error.
        """
        _options.function("fn", fn)
        terms = MapTerms(timeout, chunksize, buffersize, ordered)
        progress = _options.flag("progress", progress)
        results = self._map(fn, iterables, terms)
        if not progress:
            return results
        from gristmill._progress import length, with_progress

        return with_progress(results, length(iterables))

    def _map(
        self, fn: Callable[..., R], iterables: tuple[Iterable[Any], ...], terms: MapTerms
    ) -> Iterator[R]:
        """Starts a map and returns its results."""
        raise NotImplementedError
