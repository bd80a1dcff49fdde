"""What a program submits: an even sample of the futures, whichever way its tasks take into an engine."""

from __future__ import annotations

import random
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import wraps
from time import monotonic, monotonic_ns
from typing import Any

from gristmill import _executor, _native

Future = _native.Future[Any]


class Sample:
    """Futures drawn evenly from all that were submitted, so many at most.

    Source: Vitter, "Random Sampling with a Reservoir", ACM TOMS 1985, algorithm R.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self.forget()

    def forget(self) -> None:
        """Begins anew."""
        self._random = random.Random(0)
        self._begun = monotonic_ns()
        self.count = 0
        #: With when they were offered, which is when they had just been submitted: nanoseconds since this began.
        self.futures: list[tuple[Future, int]] = []

    def offer(self, future: Future) -> None:
        """Considers one more future."""
        self.count += 1
        if len(self.futures) < self._size:
            self.futures.append((future, monotonic_ns() - self._begun))
            return
        place = self._random.randrange(self.count)
        if place < self._size:
            self.futures[place] = future, monotonic_ns() - self._begun

    def tags(self) -> list[dict[str, Any]]:
        """The tags of those that have run, and ``at``: when they were submitted."""
        found = (future.tags() | {"at": at} for future, at in self.futures if future.done())
        return [one for one in found if "drained" in one and "started" in one]


def watch(sample: Sample) -> None:
    """Lets every submission of this process offer its future; a map becomes submissions with a window."""

    def start_map(
        self: Any,
        options: Any,
        function: Callable[..., Any],
        items: Iterator[Any],
        unpacks: bool,
        window: int,
        timeout: float | None,
        is_ordered: bool,
    ) -> Results:
        submit = self.submit if options is None else options.submit
        submitted = (submit(function, *(item if unpacks else (item,))) for item in items)
        return Results(submitted, window, timeout, is_ordered)

    # Each of them goes into the native part by a way of its own: leases and contexts by one of these.
    for kind in (_executor.Executor, _executor.TaskOptions):
        kind.submit = _offering(sample, kind.submit)  # type: ignore[method-assign]
    _executor.Executor._start_map = start_map  # type: ignore[method-assign,assignment]
    _watch_lanes(sample)


def _offering(sample: Sample, submit: Callable[..., Future]) -> Any:
    def submit_and_offer(self: Any, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        future = submit(self, fn, *args, **kwargs)
        sample.offer(future)
        return future

    return submit_and_offer


def _watch_lanes(sample: Sample) -> None:
    """Lets plain calls of Parsl programs offer theirs: they go past the executor."""
    from gristmill.parsl import lanes

    submit = lanes.Lane.submit

    @wraps(submit)
    def submit_and_offer(self: lanes.Lane, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        future = submit(self, args, kwargs)
        if future is not None:
            sample.offer(future)
        return future

    lanes.Lane.submit = submit_and_offer  # type: ignore[method-assign]


class Results:
    """The results of a map whose items have futures; all else is as of ``_native.MapResults``."""

    def __init__(
        self, submitted: Iterator[Future], window: int, timeout: float | None, is_ordered: bool
    ) -> None:
        self._submitted = submitted
        self._window = window
        self._end = None if timeout is None else monotonic() + timeout
        self._is_ordered = is_ordered
        self._is_begun = False
        self._pending: deque[Future] = deque()
        #: Those that have ended, of which the results were not asked for yet.
        self._ended: deque[Future] = deque()
        self._fill(window)

    def __iter__(self) -> Results:
        return self

    def __next__(self) -> Any:
        self._is_begun = True
        if not self._ended:
            self._fill(self._window)
            if not self._pending:
                raise StopIteration
            self._await_some()
        return self._ended.popleft().result()

    def close(self) -> None:
        """Cancels what has not started and forgets the rest."""
        self._submitted = iter(())
        for future in self._pending:
            future.cancel()
        self._pending.clear()
        self._ended.clear()

    def _submit_rest(self) -> None:
        self._fill(sys.maxsize)

    def _fill(self, count: int) -> None:
        """Submits items until so many are under way."""
        while len(self._pending) < count:
            future = next(self._submitted, None)
            if future is None:
                return
            self._pending.append(future)

    def _await_some(self) -> None:
        left = None if self._end is None else max(0.0, self._end - monotonic())
        if self._is_ordered:
            _native.wait_any([self._pending[0]], left)
            self._ended.append(self._pending.popleft())
            return
        _native.wait_any(self._pending, left)
        # All that have: a look at each costs as much as there are under way.
        under_way: deque[Future] = deque()
        for future in self._pending:
            (self._ended if future.done() else under_way).append(future)
        self._pending = under_way

    def __del__(self) -> None:
        """As the native ones: what nobody has asked for is run, what is left of the others cancelled."""
        # Nobody is left to tell of an item that cannot be sent, or that there is no engine any more.
        with suppress(Exception):
            if self._is_begun:
                self.close()
            else:
                self._submit_rest()
