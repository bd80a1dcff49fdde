"""The report of a context while many calls run: workers that were deployed with it, and calls for each of them."""

from __future__ import annotations

from concurrent.futures import as_completed
from itertools import pairwise
from time import perf_counter
from typing import Any

from gristmill_bench.errors import BenchError
from gristmill_bench.figures.contexts.levels import opened
from gristmill_bench.figures.data import Data
from gristmill_bench.figures.figure import Figure, Relation
from gristmill_bench.figures.relations import grows
from gristmill_bench.figures.session import Case, Sample, Session

_WORKERS = 8
#: Numbers of ended calls at which the report is read: densely at first, when workers are deployed.
_STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000)
_CALLS = _STEPS[-1]
#: Calls after which workers are deployed, if they ever are.
_TENTH = _CALLS // 10
#: Seconds of a call: long enough that calls end one by one, and that all calls are submitted before the first one ends.
_CALL_S = 2e-3
#: Seconds to wait for all calls, which take four seconds on one core.
_PATIENCE_S = 60.0
_SERIES = "a context"


def ready() -> dict[str, Any]:
    """Sets up almost nothing."""
    return {"seconds": _CALL_S}


def busy(context: Any) -> None:
    """Computes for as long as the context says."""
    end = perf_counter() + context["seconds"]
    while perf_counter() < end:
        pass


class _Reports(Figure):
    """A figure of one field of the report, by calls that have ended."""

    across = "calls that have ended"
    #: The field of ``Context.report()``.
    field: str

    def measure(self, session: Session) -> Data:
        """Measures one load on all workers, in as many executors as there are repetitions."""
        return session.turns(self.empty(), [Case(_SERIES, _CALLS, self._looks)])

    def _looks(self) -> list[Sample]:
        with opened("L3", ready, workers=_WORKERS) as level:
            futures = [level.submit(busy, level.context) for _ in range(_CALLS)]
            found = []
            try:
                for done, _ in enumerate(as_completed(futures, _PATIENCE_S), 1):
                    if done in _STEPS:
                        value = float(getattr(level.context.report(level.executor), self.field))
                        found.append(Sample(_SERIES, done, value))
            except TimeoutError as error:
                raise BenchError(str(error)) from error
            return found


class Deployments(_Reports):
    """Workers that were deployed with a context while 2,000 calls of two milliseconds each run on eight of them, read
    when the first call ends, the second, the fifth and so on. The paper has 100,000 calls and 150 machines, on which
    about 2,000 libraries are deployed. There the number grows for most of the run, because machines join. Here all
    workers are on one machine, where they are forked from one setup within a few calls, or before the first one has
    ended: then no rise is visible.
    """

    key = "contexts-10"
    source = "Function contexts, figure 10"
    title = "Workers that have a context, as calls end"
    upward = "workers deployed"
    field = "deployments"
    relations = (
        Relation(
            "they rise in the first tenth of the calls, and then slowly, if at all",
            lambda data: _ramps(data),
        ),
        Relation("there are no more of them than workers", lambda data: _at_most(data, _WORKERS)),
    )


class ShareValue(_Reports):
    """The average number of calls that each worker deployed with a context has run, as calls end, under the same load
    as in the figure before. The paper has up to 50 calls for each library.
    """

    key = "contexts-11"
    source = "Function contexts, figure 11"
    title = "Calls for each worker that has a context, as calls end"
    upward = "calls for each deployment"
    field = "share_value"
    relations = (
        Relation(
            "they grow linearly: ten times the calls are eight times as many for each, or more",
            grows(_SERIES, 8, _TENTH, _CALLS),
        ),
        Relation("from then on they never become fewer", lambda data: _rises(data)),
    )


def _ramps(data: Data) -> tuple[bool, str]:
    first, tenth, last = (data.at(_SERIES, step) for step in (_STEPS[0], _TENTH, _CALLS))
    said = f"{first:g} with the first call, {tenth:g} after a tenth of them, {last:g} at the end"
    return first < tenth and last <= 1.5 * tenth, said


def _at_most(data: Data, limit: int) -> tuple[bool, str]:
    most = max(median.value for median in data.of(_SERIES).values())
    return most <= limit, f"{most:g}"


def _rises(data: Data) -> tuple[bool, str]:
    values = [data.at(_SERIES, step) for step in _STEPS if step >= _TENTH]
    is_rising = all(one <= other for one, other in pairwise(values))
    return is_rising, f"{values[0]:,.0f} to {values[-1]:,.0f}"
