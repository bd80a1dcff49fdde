"""Figures of suites that measure executors: applications, rates, data and failures."""

from gristmill.bench.figures.figure import Figure
from gristmill.bench.figures.suites.travel import DataSize
from gristmill.bench.figures.suites.workers import Workers

#: In the order of the paper.
FIGURES: tuple[Figure, ...] = (Workers(), DataSize())
