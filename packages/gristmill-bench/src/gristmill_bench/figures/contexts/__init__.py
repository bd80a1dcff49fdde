"""Figures about function contexts: the savings if the setup that calls share is done once."""

from gristmill_bench.figures.contexts.applications import Applications
from gristmill_bench.figures.contexts.calls import Additions
from gristmill_bench.figures.contexts.inference import RunTimes
from gristmill_bench.figures.contexts.machines import Machines
from gristmill_bench.figures.contexts.orphans import ProcessTree
from gristmill_bench.figures.contexts.programs import Programs
from gristmill_bench.figures.contexts.sending import Links
from gristmill_bench.figures.contexts.shares import Deployments, ShareValue
from gristmill_bench.figures.contexts.starts import Breakdown
from gristmill_bench.figures.contexts.sweeps import PerCall, Pools
from gristmill_bench.figures.figure import Figure

#: The figures in the order of the paper.
FIGURES: tuple[Figure, ...] = (
    Programs(),
    Additions(),
    Links(),
    ProcessTree(),
    Machines(),
    Applications(),
    RunTimes(),
    PerCall(),
    Pools(),
    Deployments(),
    ShareValue(),
    Breakdown(),
)
