"""Workers on machines of several speeds."""

from __future__ import annotations

import json
from collections import defaultdict
from functools import partial
from pathlib import Path
from statistics import median

from gristmill_bench import config
from gristmill_bench.errors import BenchError
from gristmill_bench.figures.contexts.inference import PIXELS
from gristmill_bench.figures.data import Data
from gristmill_bench.figures.figure import Figure, Relation
from gristmill_bench.figures.session import Case, Sample, Session, Tables

#: GFlops of the paper's machines, by group.
_GFLOPS = {"group 1": 4.4, "group 2": 5.4, "groups 3 to 5": 1.9}
_SLOW, _FAST = "groups 3 to 5", "group 2"
#: Share of a processor for each GFlops: all groups together need less than the two cores of a small machine.
_SHARE = 0.1
_CALLS, _INFERENCES = 60, 16
_TIME, _PART = "milliseconds of a call", "calls of a worker"


class Machines(Figure):
    """Workers of three groups, one each, that run 60 calls of 16 inferences with a context in memory. A worker has a
    tenth of a processor for each GFlops of the paper's machines in its group, by a cgroup CPU quota. The paper lists
    201 machines of five groups, on which it runs everything; the last three groups are alike in GFlops and are one
    group here. Each call goes to a free worker, so slow machines get fewer calls. A quota is an upper limit: if other
    programs need the processors, fast machines do not reach their quota, and differ less from slow ones.
    """

    key = "contexts-table-3"
    source = "Function contexts, table 3"
    title = "Calls on machines of several speeds"
    across = "machines"
    upward = "milliseconds, and numbers of calls"
    form = "table"
    relations = (
        Relation(
            "machines differ by their GFlops: by a factor of 2.8 between the slowest and the fastest, give or take "
            "a third",
            lambda data: _as_told(data),
        ),
        Relation(
            "the faster a machine, the more calls it runs",
            lambda data: _ordered(data),
        ),
    )

    def measure(self, session: Session) -> Data:
        """Runs the application with the group of each call recorded."""
        data = self.empty()
        try:
            config.resolve(tables())
        except BenchError as error:
            data.missing["all groups"] = str(error)
            return data
        return session.turns(data, [Case("all groups", "all", partial(_looked_at, session))])


def tables() -> Tables:
    """Returns the tables of the run, with one worker for each group."""
    groups = [
        {"name": name, "workers": 1, "speed": round(_SHARE * gflops, 2)}
        for name, gflops in _GFLOPS.items()
    ]
    app = {"name": "lnni", "calls": _CALLS, "inferences": _INFERENCES, "pixels": PIXELS}
    executor = {"name": "gristmill", "groups": groups}
    return {"app": app, "executor": executor, "records": {"name": "json-lines"}}


def _looked_at(session: Session) -> list[Sample]:
    """Returns the median milliseconds of each group's calls, and the number of calls of its worker."""
    found = by_group(session.run(tables()) / "tasks.jsonl")
    return [
        sample
        for group, seconds in found.items()
        for sample in (
            Sample(_TIME, group, 1e3 * median(seconds)),
            Sample(_PART, group, float(len(seconds))),
        )
    ]


def by_group(records: Path) -> dict[str, list[float]]:
    """Returns the seconds of each call by the group of its worker, from a file of records."""
    found: dict[str, list[float]] = defaultdict(list)
    for line in records.read_text(encoding="utf-8").splitlines():
        where = json.loads(line)["execution"]
        found[where["group"]].append(where["task_end_time"] - where["task_start_time"])
    return found


def _as_told(data: Data) -> tuple[bool, str]:
    told = _GFLOPS[_FAST] / _GFLOPS[_SLOW]
    ratio = data.at(_TIME, _SLOW) / data.at(_TIME, _FAST)
    return told / 1.33 <= ratio <= told * 1.33, f"{ratio:.3g}x"


def _ordered(data: Data) -> tuple[bool, str]:
    """Returns whether faster groups have run more calls."""
    calls = [data.at(_PART, name) for name in sorted(_GFLOPS, key=lambda one: -_GFLOPS[one])]
    text = ", ".join(f"{one:g}" for one in calls)
    return calls == sorted(calls, reverse=True) and calls[0] > calls[-1], text
