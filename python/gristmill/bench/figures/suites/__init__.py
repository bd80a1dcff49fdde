"""Figures of suites that measure executors: applications, rates, data and failures."""

from gristmill.bench.figures.figure import Figure
from gristmill.bench.figures.suites.applications import Shapes, Sizes
from gristmill.bench.figures.suites.failures import Failures
from gristmill.bench.figures.suites.features import Features, Objects
from gristmill.bench.figures.suites.makespan import Makespans
from gristmill.bench.figures.suites.nested import Nested
from gristmill.bench.figures.suites.travel import DataSize
from gristmill.bench.figures.suites.workers import Workers

#: In the order of the paper.
FIGURES: tuple[Figure, ...] = (
    Features(),
    Shapes(),
    Failures(),
    Sizes(),
    Makespans(),
    Nested(),
    Objects(),
    Workers(),
    DataSize(),
)
