"""Inference at each level: the time of each call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import fmean, pstdev

from gristmill_bench.apps import resnet
from gristmill_bench.apps.lnni import Lnni
from gristmill_bench.errors import BenchError
from gristmill_bench.executors.base import scratch
from gristmill_bench.figures.contexts.levels import LEVELS, Level, Timed, opened
from gristmill_bench.figures.data import Data
from gristmill_bench.figures.figure import Figure, Relation
from gristmill_bench.figures.relations import at_least, every
from gristmill_bench.figures.session import Case, Sample, Session

#: Rows and columns of the pictures: 16 inferences then take a tenth of a second, less than the setup, as in the paper.
PIXELS = 32
_WORKERS = 2
#: Measured calls of each level, and inferences of each call.
_CALLS, _INFERENCES = 12, 16
_MOMENTS: dict[str, Callable[[list[float]], float]] = {
    "mean": fmean,
    "standard deviation": pstdev,
    "least": min,
    "most": max,
}


@contextmanager
def network() -> Iterator[str]:
    """Yields the path of a file with the network, and removes the file afterwards."""
    with scratch() as folder:
        path = Path(folder, "resnet50.onnx")
        resnet.write(path, PIXELS)
        yield str(path)


def inferred(level: Level, calls: int, inferences: int, workers: int) -> list[Timed]:
    """Times calls of ``inferences`` inferences, ``workers`` at once; raises ``BenchError`` if classes differ."""
    ended = level.calls(resnet.inferred, [(inferences,)] * calls, workers)
    found = {one.result for one in ended}
    if len(found) != 1:
        raise BenchError(f"calls have found different classes of one picture: {sorted(found)}")
    return ended


class OfInference(Figure):
    """A figure whose cases call the network."""

    def measure(self, session: Session) -> Data:
        """Measures all cases with one file of the network."""
        data = self.empty()
        missing = Lnni.missing()
        if missing is not None:
            data.missing.update(dict.fromkeys(LEVELS, missing))
            return data
        with network() as path:
            return session.turns(data, list(self.cases(path)))

    def cases(self, path: str) -> Iterable[Case]:
        """Returns the cases of the figure, given the path of the network."""
        raise NotImplementedError


class RunTimes(OfInference):
    """Twelve calls of 16 inferences on two workers, each timed from its submission until its result arrives. There are
    as many calls under way as workers, and the work that a level does once is done before. The paper has 100,000 calls
    on 150 workers of a cluster. There L1 reads a shared file system, for which all calls wait together, and its slowest
    calls take 290 s. Here all files are on one local disk, and in its cache, so that L1 is the same as L2.
    """

    key = "contexts-table-4"
    source = "Function contexts, figure 7 and table 4"
    title = "Run times of calls, by level of reuse"
    across = "of run times"
    upward = "seconds"
    form = "histogram"
    relations = (
        Relation(
            "calls at L2 take less than two thirds of those at L1, on average",
            at_least("L1", 1.5, "L2", ("mean",)),
        ),
        Relation(
            "calls at L3 take less than half of those at L2, on average",
            at_least("L2", 2, "L3", ("mean",)),
        ),
        Relation(
            "L3 has the least deviation, the shortest call, and the shortest of the longest ones",
            every(
                *(
                    at_least(name, 1, "L3", ("standard deviation", "least", "most"))
                    for name in ("L1", "L2")
                )
            ),
        ),
    )

    def cases(self, path: str) -> Iterator[Case]:
        """Yields a case for each level."""
        for name in LEVELS:
            yield Case(name, "all calls", partial(self._moments, name, path))

    @staticmethod
    def _moments(name: str, path: str) -> list[Sample]:
        with opened(name, resnet.opened, path, workers=_WORKERS) as level:
            inferred(level, _WORKERS, 1, _WORKERS)
            seconds = [one.seconds for one in inferred(level, _CALLS, _INFERENCES, _WORKERS)]
        moments = [Sample(name, moment, of(seconds)) for moment, of in _MOMENTS.items()]
        return [*(Sample(name, "calls", one) for one in seconds), *moments]
