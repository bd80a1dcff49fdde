"""Workers on machines of several speeds."""

from __future__ import annotations

import json
from collections import defaultdict
from functools import partial
from pathlib import Path
from statistics import median

from gristmill.bench import config
from gristmill.bench.errors import BenchError
from gristmill.bench.figures.contexts.inference import PIXELS
from gristmill.bench.figures.data import Data
from gristmill.bench.figures.figure import Figure, Relation
from gristmill.bench.figures.session import Case, Sample, Session, Tables

#: GFlops of the paper's machines, by group.
_GFLOPS = {"group 1": 4.4, "group 2": 5.4, "groups 3 to 5": 1.9}
_SLOW, _FAST = "groups 3 to 5", "group 2"
#: Share of a processor for each GFlops: all groups together need less than the two cores of a small machine.
_SHARE = 0.1
_CALLS, _INFERENCES = 60, 16
_TIME, _PART = "milliseconds of a call", "calls of a worker"


class Machines(Figure):
    """Workers of three groups, one each, that run 60 calls of 16 inferences with a context in memory. A worker has a
    tenth of a processor for each GFlops that the paper's machines of its group have, by the quota of a control group.
    The paper lists 201 machines of five groups on which it runs everything; the last three are alike in GFlops and are
    one here. Calls go to whichever worker is free, so that slow machines get fewer. A quota is an upper limit: where
    other programs need the processors, fast machines do not reach theirs, and differ less from slow ones.
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
        """Runs the application, of which each call is noted with its group."""
        data = self.empty()
        try:
            config.resolve(tables())
        except BenchError as error:
            data.missing["all groups"] = str(error)
            return data
        return session.turns(data, [Case("all groups", "all", partial(_looked_at, session))])


def tables() -> Tables:
    """The run, whose groups have one worker each."""
    groups = [
        {"name": name, "workers": 1, "speed": round(_SHARE * gflops, 2)}
        for name, gflops in _GFLOPS.items()
    ]
    app = {"name": "lnni", "calls": _CALLS, "inferences": _INFERENCES, "pixels": PIXELS}
    executor = {"name": "gristmill", "groups": groups}
    return {"app": app, "executor": executor, "records": {"name": "json-lines"}}


def _looked_at(session: Session) -> list[Sample]:
    """What each group's calls took, in milliseconds, and how many there were of each of its workers."""
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
    """Seconds of each call by the group of its worker, from a file of records."""
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
    """Whether faster groups have run more calls."""
    calls = [data.at(_PART, name) for name in sorted(_GFLOPS, key=lambda one: -_GFLOPS[one])]
    text = ", ".join(f"{one:g}" for one in calls)
    return calls == sorted(calls, reverse=True) and calls[0] > calls[-1], text
