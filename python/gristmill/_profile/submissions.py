"""An even sample of the futures of a program, for every way in which its tasks enter an engine."""

from __future__ import annotations

import random
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict
from functools import wraps
from time import monotonic, monotonic_ns
from typing import Any

from gristmill import _errors, _executor, _native

Future = _native.Future[Any]


class Sample:
    """A sample of at most ``size`` futures, drawn evenly from all that were submitted.

    Source: Vitter, "Random Sampling with a Reservoir", ACM TOMS 1985, algorithm R.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self.forget()

    def forget(self) -> None:
        """Discards the sample and begins a new one."""
        self._random = random.Random(0)
        self._begun = monotonic_ns()
        self.count = 0
        #: The futures with the times when they were offered, right after their submission: nanoseconds since the sample
        #: began.
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

    def timings(self) -> list[dict[str, Any]]:
        """Returns the timings of the futures that have run, with ``at``: the time of their submission."""
        found = ((future.timings(), at) for future, at in self.futures if future.done())
        return [
            asdict(one) | {"at": at}
            for one, at in found
            if one.drained is not None and one.started is not None
        ]


def watch(sample: Sample) -> None:
    """Makes every submission of this process offer its future. A map becomes single submissions with a window."""

    def start_map(
        self: Any,
        options: Any,
        function: Callable[..., Any],
        items: Iterator[Any],
        unpacks: bool,
        window: int,
        is_bounded: bool,
        timeout: float | None,
        is_ordered: bool,
        ends: bool | None,
    ) -> Results:
        submit = self.submit if options is None else options.submit

        def submitted() -> Iterator[Future | Exception]:
            for item in items:
                try:
                    yield submit(function, *(item if unpacks else (item,)))
                except _errors.UnpicklableError as error:
                    yield error

        return Results(submitted(), window, timeout, is_ordered, ends)

    # Each class has its own entry into the native part. Leases and contexts use one of these.
    for kind in (_executor.Executor, _executor.BoundExecutor):
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
    """Makes plain calls of Parsl programs offer their futures too: they bypass the executor."""
    from gristmill.parsl._kernel import fast_paths

    submit = fast_paths.FastPath.submit

    @wraps(submit)
    def submit_and_offer(
        self: fast_paths.FastPath, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        future = submit(self, args, kwargs)
        if future is not None:
            sample.offer(future)
        return future

    fast_paths.FastPath.submit = submit_and_offer  # type: ignore[method-assign]


class Results:
    """The results of a map whose items have futures; otherwise equal to ``_native.MapResults``."""

    def __init__(
        self,
        submitted: Iterator[Future | Exception],
        window: int,
        timeout: float | None,
        is_ordered: bool,
        ends: bool | None,
    ) -> None:
        self._submitted = submitted
        self._window = window
        self._end = None if timeout is None else monotonic() + timeout
        self._is_ordered = is_ordered
        self._ends = ends
        self._is_begun = False
        #: The futures, and the errors of items that could not be submitted.
        self._pending: deque[Future | Exception] = deque()
        #: The ended futures whose results were not requested yet.
        self._ended: deque[Future | Exception] = deque()
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
        first = self._ended.popleft()
        self._fill(self._window)
        if isinstance(first, Exception):
            raise first
        try:
            return first.result()
        except StopIteration as error:
            raise RuntimeError("a task of this map raised StopIteration") from error

    def close(self) -> None:
        """Cancels the tasks that have not started, and forgets the rest."""
        self._submitted = iter(())
        for one in self._pending:
            if not isinstance(one, Exception):
                one.cancel()
        self._pending.clear()
        self._ended.clear()

    def _submit_rest(self) -> None:
        if self._ends or (self._ends is None and not self._is_begun):
            self._fill(sys.maxsize)

    def _fill(self, count: int) -> None:
        """Submits items until ``count`` are in flight, or ended and not yet requested."""
        while len(self._pending) + len(self._ended) < count:
            future = next(self._submitted, None)
            if future is None:
                return
            self._pending.append(future)

    def _await_some(self) -> None:
        left = None if self._end is None else max(0.0, self._end - monotonic())
        if self._is_ordered:
            first = self._pending[0]
            if not isinstance(first, Exception):
                _native.wait_any([first], left)
            self._ended.append(self._pending.popleft())
            return
        futures = [one for one in self._pending if not isinstance(one, Exception)]
        if futures:
            _native.wait_any(futures, left)
        # Moves all that have ended: each pass costs as much as there are futures in flight. Failed items come last.
        under_way: deque[Future | Exception] = deque()
        for one in self._pending:
            has_ended = not futures if isinstance(one, Exception) else one.done()
            (self._ended if has_ended else under_way).append(one)
        self._pending = under_way

    def __del__(self) -> None:
        """Ends the map as the native one does: submits the rest if no result was requested, otherwise cancels it."""
        # No caller is left who could be told of an item that cannot be sent, or of an engine that has ended.
        with suppress(Exception):
            if self._is_begun:
                self.close()
            else:
                self._submit_rest()
