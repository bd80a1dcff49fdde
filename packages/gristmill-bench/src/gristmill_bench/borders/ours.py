"""Gristmill's executor, with the timings of its tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gristmill.instruments import FutureSample
from gristmill_bench.borders.hops import Hop, of_timings
from gristmill_bench.interfaces import Backend, Future, Keeper
from gristmill_bench.within import Source

#: Tasks whose futures are kept, sampled evenly.
_SAMPLE = 10_000


class TimedDirect:
    """A backend over Gristmill's executor that keeps futures for their timings."""

    def __init__(self, backend: Backend, sample: FutureSample | None = None) -> None:
        self._backend = backend
        self._sample = FutureSample(_SAMPLE) if sample is None else sample
        if isinstance(backend, Keeper):
            self.within = self._within

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        """Submits a call."""
        future: Any = self._backend.submit(function, *args, **kwargs)
        self._sample.offer(future)
        return future  # type: ignore[no-any-return]

    def begin(self) -> None:
        """Forgets all earlier tasks."""
        self._sample.forget()

    def hops(self) -> list[Hop]:
        """Returns the hops of later tasks that have ended."""
        return of_timings(self._sample.timings())

    def shutdown(self) -> None:
        """Ends every process and thread of the backend."""
        self._backend.shutdown()

    def _within(
        self, setup: Callable[..., Any], arguments: tuple[Any, ...], /
    ) -> tuple[Backend, Source]:
        """Returns a backend with a context, whose tasks share this sample, and the source of the context's value."""
        assert isinstance(self._backend, Keeper), "only what keeps is asked to"
        inside, source = self._backend.within(setup, arguments)
        return TimedDirect(inside, self._sample), source
