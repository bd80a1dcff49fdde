"""The model of a measurement: settings, blocks, recordings, lines and their goals.

A *row* is one row of the table of promised figures. It is measured in *blocks*, each in a fresh process, so that no
engine inherits the threads, memory or garbage of another. A block records *series* of samples; a *line* of the printed
table reads one or two of them.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

Better = Literal["higher", "lower"]

#: The name of the block that measures our engine while no peer runs.
ALONE = "alone"


class Unavailable(Exception):
    """An error for a series that cannot be measured here. Its text is the reason printed in the table."""


@dataclass(frozen=True)
class Settings:
    """The length of the measurements, and the engine in the place of ours."""

    quick: bool = False
    ours: str = "gristmill"
    #: True to measure no peer that is not part of Python.
    is_alone: bool = False

    @property
    def sample_s(self) -> float:
        """The target length of a sample, seconds: far above timer and wake-up noise, below drift."""
        return 0.025 if self.quick else 0.1

    @property
    def samples(self) -> int:
        """The number of samples of a series if samples are short."""
        return 30

    @property
    def budget_s(self) -> float:
        """The time after which a block stops sampling once it has `samples_min`, seconds."""
        return 8.0 if self.quick else 40.0

    @property
    def samples_min(self) -> int:
        """The least number of samples of a series, however long one takes."""
        return 3 if self.quick else 5


@dataclass(frozen=True)
class Block:
    """One fresh process that measures. It is repeated `repeats` times if it can give only a single sample."""

    name: str
    repeats: int = 1
    timeout_s: float = 300.0


@dataclass
class Recording:
    """The results of one block: series by key, the unit of each, and the chosen sizes."""

    series: dict[str, list[float]] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def add(self, unit: str, series: Mapping[str, Sequence[float]]) -> None:
        """Adds series that share a unit."""
        for key, samples in series.items():
            self.series.setdefault(key, []).extend(samples)
            self.units[key] = unit


@dataclass(frozen=True)
class Goal:
    """A promised figure: a limit of our median itself or of its ratio to the reference."""

    limit: float
    of: Literal["value", "ratio"] = "value"


@dataclass(frozen=True)
class Line:
    """One line of the printed table.

    `ours` and `reference` are keys of series of `block`; `reference_block` is set if the reference was measured in
    another block. The ratio is always ours divided by the reference.
    """

    label: str
    block: str
    better: Better
    ours: str = "ours"
    reference: str | None = None
    reference_name: str = ""
    reference_block: str | None = None
    must: Goal | None = None
    moonshot: Goal | None = None


class Row(ABC):
    """One row of the table of promised figures."""

    key: ClassVar[str]
    title: ClassVar[str]
    #: The unit of the row's lines and of the goals that limit a value: "/s", "s", "B" or "%".
    unit: ClassVar[str]

    @abstractmethod
    def blocks(self, settings: Settings) -> list[Block]:
        """Returns the fresh processes that the row needs."""

    @abstractmethod
    def lines(self) -> list[Line]:
        """Returns the lines that the row prints."""

    @abstractmethod
    def measure(self, block: str, settings: Settings) -> Recording:
        """Measures one block; runs in the block's process."""

    def draw(self, series: Mapping[tuple[str, str], Sequence[float]], path: Path) -> bool:
        """Draws the row's series, by block and key, into a file. Returns whether it drew anything."""
        return False
