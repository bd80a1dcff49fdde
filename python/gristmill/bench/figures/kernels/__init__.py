"""Figures about kernels of data-flow programs: what it costs to send a task, by engine."""

from gristmill.bench.figures.figure import Figure
from gristmill.bench.figures.kernels.throughput import Granularity, Metg

#: In the order of the thesis.
FIGURES: tuple[Figure, ...] = (Granularity(), Metg())
