"""A figure of a paper, made again here: what is measured, how it is drawn, and what of it has to hold.

What counts is the paper's *relation* (who wins, which shape), not its numbers: those are of another machine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar

from gristmill.bench.figures.data import Data
from gristmill.bench.figures.session import Point, Session, Summary


@dataclass(frozen=True)
class Relation:
    """What the paper's figure says, and how that is looked up in what was measured here."""

    text: str
    #: Whether it holds, and by which numbers; a ``LookupError`` if what it needs was not measured.
    check: Callable[[Data], tuple[bool, str]]


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
    relations: ClassVar[tuple[Relation, ...]] = ()

    @abstractmethod
    def points(self) -> Iterable[Point]:
        """What is run for it."""

    @abstractmethod
    def value(self, summary: Summary) -> float:
        """What it shows of a run."""

    def measure(self, session: Session) -> Data:
        """Measures it anew."""
        return session.sweep(Data(self.key, self.across, self.upward), self.points(), self.value)

    @property
    def about(self) -> str:
        """What the paper has measured, and what is different here."""
        return " ".join((type(self).__doc__ or "").split())
