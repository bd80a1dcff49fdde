"""Whole applications at each level of reuse."""

from __future__ import annotations

from collections.abc import Iterator

from gristmill_bench.figures.contexts.inference import PIXELS
from gristmill_bench.figures.contexts.levels import LEVELS
from gristmill_bench.figures.figure import Relation, Sweep
from gristmill_bench.figures.rates import bare
from gristmill_bench.figures.relations import at_least, every
from gristmill_bench.figures.session import Point, Summary, Tables

_LNNI, _EXAMOL = "LNNI", "ExaMol"
_APPS = {
    _LNNI: {"name": "lnni", "calls": 6, "inferences": 16, "pixels": PIXELS},
    _EXAMOL: {"name": "examol", "candidates": 24, "rounds": 1, "batch": 2, "shares": 1},
}
#: The paper's own system, with the kind of its calls for each series.
_VINES = {"TaskVine, tasks": "tasks", "TaskVine, invocations": "direct"}


class Applications(Sweep):
    """Inference with ResNet-50 in six calls of 16 pictures, and a search for molecules of four calls, on two workers.
    The paper has 100,000 and 10,000 calls on 150 workers of a cluster; its L1 reads a shared file system, which 150
    workers overload. Here L1 and L2 both read one local disk, so that only L3 can save much. Nearly all time of LNNI's
    calls at L3 is inference, which no level saves. The paper's ExaMol could not run at L3. If TaskVine is installed,
    its tasks and its invocations run the same calls. Neither is warmed up: a warm-up by invocations would leave a
    library, which has to be ended to make room for that of the application, and TaskVine keeps each library alive for
    two or three seconds.
    """

    key = "contexts-6"
    source = "Function contexts, figure 6"
    title = "Time of two applications, by level of reuse"
    across = "application"
    upward = "seconds"
    form = "bars"
    relations = (
        Relation(
            "LNNI takes half as long at L2 as at L1 (paper: 55 % less)",
            at_least("L1", 2, "L2", (_LNNI,)),
        ),
        Relation(
            "LNNI takes less than half as long at L3 as at L2 (paper: 88 % less)",
            at_least("L2", 2, "L3", (_LNNI,)),
        ),
        Relation(
            "ExaMol is faster at L2 than at L1 by a quarter (paper: 27 % less)",
            at_least("L1", 4 / 3, "L2", (_EXAMOL,)),
        ),
        Relation(
            "ExaMol runs at L3 too, and is faster there than at L1 and L2",
            every(*(at_least(name, 1, "L3", (_EXAMOL,)) for name in ("L1", "L2"))),
        ),
        Relation(
            "invocations of TaskVine are faster than its tasks",
            at_least("TaskVine, tasks", 1, "TaskVine, invocations", tuple(_APPS)),
        ),
        Relation(
            "L3 is faster than TaskVine's invocations",
            at_least("TaskVine, invocations", 1, "L3", tuple(_APPS)),
        ),
    )

    def points(self) -> Iterator[Point]:
        """Yields each application at each level, and on TaskVine."""
        for title, app in _APPS.items():
            for level, reuse in LEVELS.items():
                yield Point(level, title, _with(bare(app, "gristmill", 2), reuse=reuse))
            for name, calls in _VINES.items():
                tables = _with(bare(app, "taskvine", 2), calls=calls)
                yield Point(name, title, tables | {"run": {"warmup": 0}})

    def value(self, summary: Summary) -> float:
        """Returns the time of the calls, without the preparation of LNNI before its first call."""
        figures = summary["figures"]
        return float(figures.get("calls_s", summary["seconds"]["run"]))


def _with(tables: Tables, **chosen: str) -> Tables:
    return tables | {"executor": tables["executor"] | chosen}
