"""Figures about kernels of data-flow programs: what it costs to send a task, by engine."""

from gristmill.bench.figures.figure import Figure
from gristmill.bench.figures.kernels.dispatch import Dispatch, Kernels, Nodes
from gristmill.bench.figures.kernels.granularity import Granularity
from gristmill.bench.figures.kernels.inference import Inference
from gristmill.bench.figures.kernels.logs import Logs
from gristmill.bench.figures.kernels.objects import Collector, Objects
from gristmill.bench.figures.kernels.pipeline import Pipeline, Times
from gristmill.bench.figures.kernels.queues import Direct, Queues
from gristmill.bench.figures.kernels.shortest import Shortest
from gristmill.bench.figures.kernels.threads import Threads, Waits

#: In the order of the thesis.
FIGURES: tuple[Figure, ...] = (
    Pipeline(),
    Threads(),
    Times(),
    Logs(),
    Direct(),
    Queues(),
    Waits(),
    Kernels(),
    Nodes(),
    Objects(),
    Collector(),
    Granularity(),
    Dispatch(),
    Inference(),
    Shortest(),
)
