"""Calls at the levels of the paper: a new context for each call, or one that is kept.

Source: Phung and others, "Accelerating Function-Centric Applications by Discovering, Distributing, and Retaining
Reusable Context in Workflow Systems", section 4: L1 reads everything from a shared file system for each task, L2 from
the disk of the node, L3 keeps it in memory. L1 and L2 both start an interpreter and set the context up for each call,
and all files are on the local disk, so on one machine they are the same.
"""

import importlib
from collections.abc import Callable
from copy import copy
from typing import Any

from benches import engines
from benches.engines.base import Engine
from benches.model import Settings, Unavailable

#: The reuse of a context for each level.
REUSE = {"L1": "none", "L2": "disk", "L3": "memory"}


class Level:
    """One engine in which a context has a level; started with `harness.opened`."""

    def __init__(
        self,
        settings: Settings,
        level: str,
        setup: Callable[..., Any],
        *arguments: Any,
        workers: int = 1,
    ) -> None:
        if settings.ours != engines.OURS:
            raise Unavailable(f"{settings.ours} has no adapter for contexts")
        self.engine: Engine = engines.ours(settings.ours, workers)
        gristmill = importlib.import_module("gristmill")
        #: Its name appears in messages only. Contexts of two levels differ without it.
        context = gristmill.Context(setup, *arguments, name=f"{setup.__name__} at {level}")
        declare = importlib.import_module("gristmill._context.declare")
        self.context: Any = declare.with_reuse(context, REUSE[level])

    @property
    def submit(self) -> Callable[..., Any]:
        """The engine's own `submit` in the context. The engine must be started."""
        submit: Callable[..., Any] = self._executor.options(context=self.context).submit
        return submit

    @property
    def inside(self) -> Engine:
        """A copy of the engine that runs all tasks in the context. The engine must be started."""
        engine = copy(self.engine)
        engine.submit = self.submit
        return engine

    def report(self) -> Any:
        """Returns the costs of the context so far."""
        return self.context.report(self._executor)

    @property
    def _executor(self) -> Any:
        return getattr(self.engine, "executor", None)

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls a function in the context and waits for the result."""
        return self.engine.result(self.submit(function, *arguments))


def saving(faster: float, slower: float) -> float:
    """Returns the percentage of the slower time that the faster one saves."""
    return 100 * (1 - faster / slower)


def expected_saving(setup: float, compute: float) -> float:
    """Returns the percentage of its time that a call saves if its context is set up already."""
    return 100 * setup / (setup + compute)


def deviation(measured: float, expected: float) -> float:
    """Returns the difference between a figure and the expected one, in percent of the expected one."""
    return 100 * abs(measured / expected - 1)
