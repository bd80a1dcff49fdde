"""A figure of a paper, made again here: its measurements, its drawing, and the relations that have to hold.

The figure has to show the paper's *relation* (who wins, which shape), not its numbers, which are of another machine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from gristmill_bench.figures.data import Data, Place
from gristmill_bench.figures.drawing import Form
from gristmill_bench.figures.session import Point, Sample, Session, Summary

HOLDS, DOES_NOT_HOLD, NOT_MEASURED = "holds", "does not hold", "not measured"


@dataclass(frozen=True)
class Relation:
    """A statement of the paper's figure, with its check against the measurements here."""

    text: str
    #: A check that returns whether the relation holds, with the numbers, or raises ``LookupError`` if some are missing.
    check: Callable[[Data], tuple[bool, str]]

    def verdict(self, data: Data) -> tuple[str, str]:
        """Returns whether the relation holds, in words, with the numbers or the reason why it was not measured."""
        try:
            holds, numbers = self.check(data)
        except LookupError as error:
            return NOT_MEASURED, str(error.args[0])
        return HOLDS if holds else DOES_NOT_HOLD, numbers


class Figure(ABC):
    """One figure, or table, of a paper. The page shows the docstring of its class."""

    #: The name of the figure, for the command and its files.
    key: ClassVar[str]
    #: The place of the figure, such as "TaPS, figure 4".
    source: ClassVar[str]
    title: ClassVar[str]
    #: The labels of the axes, with units.
    across: ClassVar[str] = ""
    upward: ClassVar[str]
    #: The form of its drawing: see ``gristmill_bench.figures.drawing``.
    form: ClassVar[Form] = "lines"
    #: Another page with the same table between two marks: a path relative to the folder of the measurements.
    elsewhere: ClassVar[str | None] = None
    relations: ClassVar[tuple[Relation, ...]] = ()

    @abstractmethod
    def measure(self, session: Session) -> Data:
        """Measures the figure."""

    def run_count(self, session: Session) -> int | None:
        """Returns the number of runs that the figure would make here, or ``None`` if it is not known in advance."""
        return None

    def words(self, place: Place, samples: Sequence[float]) -> str | None:
        """Returns the table's text for samples that stand for words, or ``None`` if the table shows the median."""
        return None

    def empty(self) -> Data:
        """Returns the data of the figure before anything is measured."""
        return Data(self.key, self.across, self.upward)

    @property
    def about(self) -> str:
        """The description of the paper's measurement and of the differences here."""
        return " ".join((type(self).__doc__ or "").split())


class Sweep(Figure):
    """A figure that shows one value or several of each run of the suite."""

    #: The most repetitions of expensive runs; ``None``: no limit.
    repeats_max: ClassVar[int | None] = None

    @abstractmethod
    def points(self) -> Iterable[Point]:
        """Returns the runs of the figure."""

    def value(self, summary: Summary) -> float:
        """Returns the value of a run that the figure shows, unless it shows several samples."""
        raise NotImplementedError

    def samples(self, summary: Summary, point: Point) -> Iterable[Sample]:
        """Returns the samples of a run that the figure shows: its one value."""
        return [Sample(point.series, point.at, self.value(summary))]

    def measure(self, session: Session) -> Data:
        """Measures the figure."""
        return self.limited(session).sweep(self.empty(), self.points(), self.samples)

    def limited(self, session: Session) -> Session:
        """Returns the session, limited to the figure's number of repetitions."""
        return session if self.repeats_max is None else session.at_most(self.repeats_max)

    def run_count(self, session: Session) -> int:
        """Returns the number of points that are available here, times the repetitions."""
        points = session.available(self.empty(), self.points())
        return self.limited(session).repeats * len(points)
