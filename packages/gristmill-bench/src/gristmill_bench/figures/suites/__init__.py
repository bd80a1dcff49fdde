"""Figures of suites that measure executors: applications, rates, data and failures."""

from gristmill_bench.figures.figure import Figure
from gristmill_bench.figures.suites.applications import Shapes, Sizes
from gristmill_bench.figures.suites.failures import Failures
from gristmill_bench.figures.suites.features import Features, Objects
from gristmill_bench.figures.suites.makespan import Makespans
from gristmill_bench.figures.suites.nested import Nested
from gristmill_bench.figures.suites.travel import DataSize
from gristmill_bench.figures.suites.workers import Workers

#: The figures in the order of the paper.
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
