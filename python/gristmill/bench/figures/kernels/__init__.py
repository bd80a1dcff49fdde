"""Figures about kernels of data-flow programs: what it costs to send a task, by engine."""

from gristmill.bench.figures.figure import Figure
from gristmill.bench.figures.kernels.dispatch import Dispatch, Kernels, Nodes
from gristmill.bench.figures.kernels.granularity import Granularity
from gristmill.bench.figures.kernels.inference import Inference
from gristmill.bench.figures.kernels.shortest import Shortest

#: In the order of the thesis.
FIGURES: tuple[Figure, ...] = (
    Kernels(),
    Nodes(),
    Granularity(),
    Dispatch(),
    Inference(),
    Shortest(),
)
