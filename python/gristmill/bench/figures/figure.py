"""A figure of a paper, made again here: what is measured, how it is drawn, and what of it has to hold.

What counts is the paper's *relation* (who wins, which shape), not its numbers: those are of another machine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from gristmill.bench.figures.data import Data, Place
from gristmill.bench.figures.drawing import Form
from gristmill.bench.figures.session import Point, Sample, Session, Summary

HOLDS, DOES_NOT_HOLD, NOT_MEASURED = "holds", "does not hold", "not measured"


@dataclass(frozen=True)
class Relation:
    """What the paper's figure says, and how that is looked up in what was measured here."""

    text: str
    #: Whether it holds, and by which numbers; a ``LookupError`` if what it needs was not measured.
    check: Callable[[Data], tuple[bool, str]]

    def verdict(self, data: Data) -> tuple[str, str]:
        """Whether it holds, in words, and by which numbers, or why nobody knows."""
        try:
            holds, numbers = self.check(data)
        except LookupError as error:
            return NOT_MEASURED, str(error.args[0])
        return HOLDS if holds else DOES_NOT_HOLD, numbers


class Figure(ABC):
    """One figure, or table, of a paper. The page has the docstring of its class."""

    #: Its name, for the command and its files.
    key: ClassVar[str]
    #: Where it is, such as "TaPS, figure 4".
    source: ClassVar[str]
    title: ClassVar[str]
    #: What the axes have, with units.
    across: ClassVar[str] = ""
    upward: ClassVar[str]
    #: How it is drawn: see ``gristmill.bench.figures.drawing``.
    form: ClassVar[Form] = "lines"
    #: Another page that has its table too, between two marks: from the folder of the measurements.
    elsewhere: ClassVar[str | None] = None
    relations: ClassVar[tuple[Relation, ...]] = ()

    @abstractmethod
    def measure(self, session: Session) -> Data:
        """Measures it anew."""

    def run_count(self, session: Session) -> int | None:
        """How many runs it would make here; ``None``: it says so only when it makes them."""
        return None

    def words(self, place: Place, samples: Sequence[float]) -> str | None:
        """What its table says in the place of a median, where samples stand for words; ``None``: the median."""
        return None

    def empty(self) -> Data:
        """Its data before anything is measured."""
        return Data(self.key, self.across, self.upward)

    @property
    def about(self) -> str:
        """What the paper has measured, and what is different here."""
        return " ".join((type(self).__doc__ or "").split())


class Sweep(Figure):
    """A figure that shows of each run of the suite one value, or some."""

    #: Repetitions, where so many at most are made of what is dear.
    repeats_max: ClassVar[int | None] = None

    @abstractmethod
    def points(self) -> Iterable[Point]:
        """What is run for it."""

    def value(self, summary: Summary) -> float:
        """What it shows of a run, unless it shows several samples."""
        raise NotImplementedError

    def samples(self, summary: Summary, point: Point) -> Iterable[Sample]:
        """What it shows of a run: its one value."""
        return [Sample(point.series, point.at, self.value(summary))]

    def measure(self, session: Session) -> Data:
        """Measures it anew."""
        return self.limited(session).sweep(self.empty(), self.points(), self.samples)

    def limited(self, session: Session) -> Session:
        """The session, with no more repetitions than the figure has."""
        return session if self.repeats_max is None else session.at_most(self.repeats_max)

    def run_count(self, session: Session) -> int:
        """One for each point that is available here and each repetition."""
        points = session.available(self.empty(), self.points())
        return self.limited(session).repeats * len(points)
