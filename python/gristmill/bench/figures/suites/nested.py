"""What it costs that tasks have threads of their own."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gristmill.bench.figures.data import Data
from gristmill.bench.figures.figure import Relation, Sweep
from gristmill.bench.figures.rates import OTHERS, bare
from gristmill.bench.figures.relations import at_least, every
from gristmill.bench.figures.session import Point, Summary

#: Places, with the threads of each worker.
_THREADS: dict[str, int | str] = {"one thread": 1, "two threads": 2, "as installed": "unset"}
_ONE, _TWO, _INSTALLED = _THREADS
#: By which share a run has to be longer for its threads to have cost something.
_SHARE = 0.1


def _costs(place: str, name: str, data: Data) -> tuple[bool, str]:
    """Whether an engine takes longer there than with one thread in each worker."""
    ratio = data.at(name, place) / data.at(name, _ONE)
    return ratio > 1 + _SHARE, f"{ratio:.3g}x"


def _costs_little(place: str, name: str, data: Data) -> tuple[bool, str]:
    costs, said = _costs(place, name, data)
    return not costs, said


class Nested(Sweep):
    """A matrix of 2,000 rows is multiplied in four parts by two workers on two cores, where a product has one thread in
    each worker, or two, or where the suite says nothing, as whoever installs an engine and runs it. Libraries of linear
    algebra take as many threads as there are cores then. In the paper applications hung on 64 cores with pools of
    processes and Parsl unless they were told to have one thread, and worked at once with Dask and Ray. These two tell
    their workers so by themselves, and so does Gristmill where there are as many workers as cores. Where all of them
    are told two, each loses. Four threads on two cores hang nowhere, and what they cost scatters. With one thread each
    the product itself decides, which is the same for all: the better ones differ by less than runs of one of them do,
    and which of these is the fastest is chance.
    """

    key = "taps-nested"
    source = "TaPS, section V-A"
    title = "Time of a product of matrices, by threads of each worker"
    across = "threads of each of two workers"
    upward = "seconds"
    form = "bars"
    #: As the paper has it.
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
        """Each engine with each number of threads, and with what it chooses."""
        for place, threads in _THREADS.items():
            for name in ("gristmill", "processes", *OTHERS):
                tables = bare({"name": "matmul", "size": 2_000, "parts": 4}, name, 2)
                tables["executor"]["threads"] = threads
                yield Point(name, place, tables)

    def value(self, summary: Summary) -> float:
        """The run alone."""
        return float(summary["seconds"]["run"])
