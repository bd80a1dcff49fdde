"""What a context reports of itself while many calls run: workers that came up with it, and calls for each."""

from __future__ import annotations

from concurrent.futures import wait
from itertools import pairwise
from time import perf_counter
from typing import Any

from gristmill.bench.errors import BenchError
from gristmill.bench.figures.contexts.levels import opened
from gristmill.bench.figures.data import Data
from gristmill.bench.figures.figure import Figure, Relation
from gristmill.bench.figures.relations import grows
from gristmill.bench.figures.session import Case, Sample, Session

_WORKERS = 4
_CALLS = 20_000
#: After so many calls each the report is looked at.
_STEPS = tuple(_CALLS * tenths // 10 for tenths in range(1, 11))
_CALL_S = 1e-4
#: All of them take two seconds on one core.
_PATIENCE_S = 60.0
_SERIES = "a context"


def ready() -> dict[str, Any]:
    """Sets up next to nothing."""
    return {"seconds": _CALL_S}


def busy(context: Any) -> None:
    """Computes for as long as the context says."""
    end = perf_counter() + context["seconds"]
    while perf_counter() < end:
        pass


class _Reports(Figure):
    """A figure of one field of the report, by calls that have ended."""

    across = "calls that have ended"
    #: Of ``Context.report()``.
    field: str

    def measure(self, session: Session) -> Data:
        """Measures one load on four workers, in as many executors as there are repetitions."""
        return session.turns(self.empty(), [Case(_SERIES, _CALLS, self._looks)])

    def _looks(self) -> list[Sample]:
        with opened("L3", ready, workers=_WORKERS) as level:
            futures = [level.submit(busy, level.context) for _ in range(_CALLS)]
            found, done = [], 0
            for step in _STEPS:
                _, waiting = wait(futures[done:step], _PATIENCE_S)
                if waiting:
                    raise BenchError(f"{len(waiting)} calls have not ended in {_PATIENCE_S:g} s")
                done = step
                value = float(getattr(level.context.report(level.executor), self.field))
                found.append(Sample(_SERIES, step, value))
            return found


class Deployments(_Reports):
    """Workers that came up with a context while 20,000 calls of a tenth of a millisecond each run on four of them. The
    paper has 100,000 calls and 150 machines, on which about 2,000 libraries come to be. They become more for most of
    the run there, since machines join; here all workers are on one machine, from the start.
    """

    key = "contexts-10"
    source = "Function contexts, figure 10"
    title = "Workers that have a context, as calls end"
    upward = "workers deployed"
    field = "deployments"
    relations = (
        Relation(
            "they rise at once to what the load needs, and then slowly, if at all",
            lambda data: _steady(data),
        ),
        Relation("there are no more of them than workers", lambda data: _at_most(data, _WORKERS)),
    )


class ShareValue(_Reports):
    """How many calls each worker that came up with a context has run, on average, as calls end: the same load as of the
    figure before. The paper has up to 50 calls for each library.
    """

    key = "contexts-11"
    source = "Function contexts, figure 11"
    title = "Calls for each worker that has a context, as calls end"
    upward = "calls for each deployment"
    field = "share_value"
    relations = (
        Relation(
            "they grow linearly: ten times the calls are eight times as many for each, or more",
            grows(_SERIES, 8, _STEPS[0], _STEPS[-1]),
        ),
        Relation("they never become fewer", lambda data: _rises(data)),
    )


def _steady(data: Data) -> tuple[bool, str]:
    first, last = (data.at(_SERIES, step) for step in (_STEPS[0], _STEPS[-1]))
    return last <= 1.5 * first, f"{first:g} after a tenth of the calls, {last:g} at the end"


def _at_most(data: Data, limit: int) -> tuple[bool, str]:
    most = max(median.value for median in data.of(_SERIES).values())
    return most <= limit, f"{most:g}"


def _rises(data: Data) -> tuple[bool, str]:
    values = [median.value for median in data.of(_SERIES).values()]
    is_rising = all(one <= other for one, other in pairwise(values))
    return is_rising, f"{values[0]:,.0f} to {values[-1]:,.0f}"
