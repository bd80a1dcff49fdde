"""Gristmill's executor, with the tags of the tasks that it ran."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gristmill._profile.submissions import Sample
from gristmill.bench.borders.hops import Hop, of_tags
from gristmill.bench.interfaces import Backend, Future, Keeper
from gristmill.bench.within import Source

#: Tasks whose futures are kept, drawn evenly.
_SAMPLE = 10_000


class TaggedDirect:
    """A backend over our executor that keeps futures for their tags."""

    def __init__(self, backend: Backend, sample: Sample | None = None) -> None:
        self._backend = backend
        self._sample = Sample(_SAMPLE) if sample is None else sample
        if isinstance(backend, Keeper):
            self.within = self._within

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        """Submits a call."""
        future: Any = self._backend.submit(function, *args, **kwargs)
        self._sample.offer(future)
        return future  # type: ignore[no-any-return]

    def begin(self) -> None:
        """Forgets all tasks before."""
        self._sample.forget()

    def hops(self) -> list[Hop]:
        """Where the time of the others went that have ended."""
        return of_tags(self._sample.tags())

    def shutdown(self) -> None:
        """Ends every process and thread of it."""
        self._backend.shutdown()

    def _within(
        self, setup: Callable[..., Any], arguments: tuple[Any, ...], /
    ) -> tuple[Backend, Source]:
        """The same with a context, whose tasks are among the others."""
        assert isinstance(self._backend, Keeper), "only what keeps is asked to"
        inside, source = self._backend.within(setup, arguments)
        return TaggedDirect(inside, self._sample), source
