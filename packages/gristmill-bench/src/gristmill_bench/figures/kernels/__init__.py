"""Figures about kernels of data-flow programs: the cost of sending a task, by engine."""

from gristmill_bench.figures.figure import Figure
from gristmill_bench.figures.kernels.dispatch import Dispatch, Kernels, Nodes
from gristmill_bench.figures.kernels.granularity import Granularity
from gristmill_bench.figures.kernels.inference import Inference
from gristmill_bench.figures.kernels.logs import Logs
from gristmill_bench.figures.kernels.objects import Collector, Objects
from gristmill_bench.figures.kernels.pipeline import Pipeline, Times
from gristmill_bench.figures.kernels.queues import Direct, Queues
from gristmill_bench.figures.kernels.shortest import Shortest
from gristmill_bench.figures.kernels.threads import Threads, Waits

#: The figures in the order of the thesis.
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
