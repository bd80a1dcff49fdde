"""The cost of tasks that use threads of their own."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gristmill_bench.figures.data import Data
from gristmill_bench.figures.figure import Relation, Sweep
from gristmill_bench.figures.rates import OTHERS, bare
from gristmill_bench.figures.relations import at_least, every
from gristmill_bench.figures.session import Point, Summary

#: Places, with the threads of each worker.
_THREADS: dict[str, int | str] = {"one thread": 1, "two threads": 2, "as installed": "unset"}
_ONE, _TWO, _INSTALLED = _THREADS
#: The share by which a run has to be longer for its threads to count as a cost.
_SHARE = 0.1


def _costs(place: str, name: str, data: Data) -> tuple[bool, str]:
    """Returns whether an engine takes longer at a place than with one thread in each worker."""
    ratio = data.at(name, place) / data.at(name, _ONE)
    return ratio > 1 + _SHARE, f"{ratio:.3g}x"


def _costs_little(place: str, name: str, data: Data) -> tuple[bool, str]:
    costs, said = _costs(place, name, data)
    return not costs, said


class Nested(Sweep):
    """A matrix of 2,000 rows, multiplied in four parts by two workers on two cores. A product has one thread in each
    worker, or two, or the suite sets nothing, as a user who installs an engine and runs it. Linear algebra libraries
    then use as many threads as there are cores. In the paper, applications hung on 64 cores with pools of processes and
    with Parsl unless they were set to one thread, and worked at once with Dask and Ray. Dask and Ray set their workers
    to one thread by themselves, and so does Gristmill if there are as many workers as cores. With two threads set for
    all, each engine loses. Four threads on two cores hang nowhere, and their cost varies between runs. With one thread
    each, the product itself decides, which is the same for all: the better engines differ by less than repeated runs of
    one of them do, and which of them is the fastest is chance.
    """

    key = "taps-nested"
    source = "TaPS, section V-A"
    title = "Time of a product of matrices, by threads of each worker"
    across = "threads of each of two workers"
    upward = "seconds"
    form = "bars"
    #: As in the paper.
    repeats_max = 3
    relations = (
        *(
            Relation(
                f"as it is installed, threads cost {title} time", partial(_costs, _INSTALLED, name)
            )
            for name, title in (("processes", "a pool of processes"), ("parsl", "Parsl"))
        ),
        *(
            Relation(
                f"as it is installed, they cost {title} no more than a tenth",
                partial(_costs_little, _INSTALLED, name),
            )
            for name, title in (("dask", "Dask"), ("ray", "Ray"), ("gristmill", "Gristmill"))
        ),
        *(
            Relation(f"more threads than cores cost {title} time", partial(_costs, _TWO, name))
            for name, title in (("processes", "pools of processes"), ("parsl", "Parsl"))
        ),
        Relation(
            "with one thread in each worker Gristmill is faster than all of them",
            every(*(at_least(name, 1, "gristmill", (_ONE,)) for name in ("processes", *OTHERS))),
        ),
    )

    def points(self) -> Iterator[Point]:
        """Yields each engine with each number of threads, and with its own choice."""
        for place, threads in _THREADS.items():
            for name in ("gristmill", "processes", *OTHERS):
                tables = bare({"name": "matmul", "size": 2_000, "parts": 4}, name, 2)
                tables["executor"]["threads"] = threads
                yield Point(name, place, tables)

    def value(self, summary: Summary) -> float:
        """Returns the seconds of the run phase."""
        return float(summary["seconds"]["run"])
