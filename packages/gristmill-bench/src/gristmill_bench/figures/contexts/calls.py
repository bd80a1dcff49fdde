"""The cost of calls that do almost nothing: local calls, tasks that set up for themselves, and calls in a context."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from operator import add
from statistics import fmean
from time import perf_counter

from gristmill_bench.errors import BenchError
from gristmill_bench.executors.base import ExecutorPlugin
from gristmill_bench.figures.contexts.levels import opened
from gristmill_bench.figures.data import Data
from gristmill_bench.figures.figure import Figure, Relation
from gristmill_bench.figures.relations import at_least, every
from gristmill_bench.figures.session import Case, Sample, Session
from gristmill_bench.interfaces import Future
from gristmill_bench.plugins import make

_LOCAL, _TASK, _INVOCATION = "local call", "task", "invocation"
_VINES_TASK, _VINES_INVOCATION = "TaskVine's task", "TaskVine's invocation"
_ONCE, _EACH, _ALL = "for a worker", "for a call", "1,000 calls"
#: Number of calls in each mean: a task takes a tenth of a second, an invocation microseconds.
_COUNTS = {
    _LOCAL: 100_000,
    _TASK: 20,
    _INVOCATION: 2_000,
    _VINES_TASK: 20,
    _VINES_INVOCATION: 200,
}
_CALLS = 1_000


class Additions(Figure):
    """Additions in one worker: as local calls, as tasks, for each of which an interpreter is started and set up (L1),
    and as invocations that share a setup (L3). "For a worker" is the extra time of the first call over that of the
    others. "For a call" is the mean; each call is waited for. "1,000 calls" is computed from both, because 1,000 tasks
    would take minutes. The paper has TaskVine, whose worker first unpacks an environment for 20 s; here the environment
    is that of the program. If TaskVine is installed, its own tasks and invocations are measured beside Gristmill's; its
    invocations run in the process of its library.
    """

    key = "contexts-table-2"
    source = "Function contexts, table 2"
    title = "Additions as local calls, tasks and invocations"
    across = "overhead"
    upward = "seconds"
    form = "table"
    relations = (
        Relation(
            "an invocation costs less than a fiftieth of a task (paper: a 75th)",
            at_least(_TASK, 50, _INVOCATION, (_EACH,)),
        ),
        Relation(
            "a local call costs least",
            every(*(at_least(name, 1, _LOCAL, (_EACH,)) for name in (_TASK, _INVOCATION))),
        ),
        Relation(
            "a worker for tasks costs about as much as one for invocations",
            lambda data: _alike_once(data),
        ),
        Relation(
            "1,000 invocations take less than a ninth of the time of 1,000 tasks",
            at_least(_TASK, 9, _INVOCATION, (_ALL,)),
        ),
        Relation(
            "an invocation of ours costs less than the paper's 2.5 ms",
            lambda data: _below(data, 2.52e-3),
        ),
        Relation(
            "an invocation of TaskVine costs less than a fiftieth of its task",
            at_least(_VINES_TASK, 50, _VINES_INVOCATION, (_EACH,)),
        ),
        Relation(
            "an invocation of ours costs less than a hundredth of TaskVine's",
            at_least(_VINES_INVOCATION, 100, _INVOCATION, (_EACH,)),
        ),
    )

    def measure(self, session: Session) -> Data:
        """Measures all kinds of calls in turns."""
        ways: dict[str, Callable[[], list[float]]] = {
            _LOCAL: local,
            _TASK: partial(elsewhere, "L1", _COUNTS[_TASK]),
            _INVOCATION: partial(elsewhere, "L3", _COUNTS[_INVOCATION]),
            _VINES_TASK: partial(on_taskvine, "tasks", _COUNTS[_VINES_TASK]),
            _VINES_INVOCATION: partial(on_taskvine, "direct", _COUNTS[_VINES_INVOCATION]),
        }
        cases = [Case(name, "all", partial(overheads, name, way)) for name, way in ways.items()]
        return session.turns(self.empty(), cases)


def overheads(name: str, way: Callable[[], list[float]]) -> Iterator[Sample]:
    """Yields the overheads of calls from their seconds, with those of the first call before the others."""
    first, *others = way()
    each = fmean(others)
    once = max(0.0, first - each)
    for what, seconds in ((_ONCE, once), (_EACH, each), (_ALL, once + _CALLS * each)):
        yield Sample(name, what, seconds)


def local() -> list[float]:
    """Returns the seconds of a local call, twice: its worker exists already."""
    start = perf_counter()
    for number in range(_COUNTS[_LOCAL]):
        add(number, number)
    each = (perf_counter() - start) / _COUNTS[_LOCAL]
    return [each, each]


def elsewhere(name: str, count: int) -> list[float]:
    """Returns the seconds of each call at a level; the first one counts from before the executor is made."""
    start = perf_counter()
    # Neither the setup nor the called function makes an interpreter import anything.
    with opened(name, dict, workers=1) as level:
        return each(level.submit, count, start)


def on_taskvine(calls: str, count: int) -> list[float]:
    """Returns the seconds of each TaskVine call of a kind; raises ``BenchError`` if it is not installed."""
    start = perf_counter()
    plugin = make("executor", "taskvine", {"workers": 1, "calls": calls})
    assert isinstance(plugin, ExecutorPlugin)
    backend = plugin.open()
    try:
        return each(backend.submit, count, start)
    finally:
        backend.shutdown()


def each(submit: Callable[..., Future], count: int, start: float) -> list[float]:
    """Returns the seconds of each addition, one after the other; the first one counts from ``start``."""
    took = []
    for number in range(count + 1):
        if submit(add, number, number).result() != 2 * number:
            raise BenchError(f"{number} + {number} is not {2 * number}")
        now = perf_counter()
        took.append(now - start)
        start = now
    return took


def _alike_once(data: Data) -> tuple[bool, str]:
    ratio = data.at(_TASK, _ONCE) / data.at(_INVOCATION, _ONCE)
    return 0.5 <= ratio <= 2, f"{ratio:.3g}x"


def _below(data: Data, seconds: float) -> tuple[bool, str]:
    each = data.at(_INVOCATION, _EACH)
    return each < seconds, f"{1e6 * each:.3g} us"
