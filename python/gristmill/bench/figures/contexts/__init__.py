"""Figures about function contexts: what is saved when what calls share is set up once."""

from gristmill.bench.figures.contexts.applications import Applications
from gristmill.bench.figures.contexts.calls import Additions
from gristmill.bench.figures.contexts.inference import RunTimes
from gristmill.bench.figures.contexts.machines import Machines
from gristmill.bench.figures.contexts.orphans import ProcessTree
from gristmill.bench.figures.contexts.programs import Programs
from gristmill.bench.figures.contexts.sending import Links
from gristmill.bench.figures.contexts.shares import Deployments, ShareValue
from gristmill.bench.figures.contexts.starts import Breakdown
from gristmill.bench.figures.contexts.sweeps import PerCall, Pools
from gristmill.bench.figures.figure import Figure

#: In the order of the paper.
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
