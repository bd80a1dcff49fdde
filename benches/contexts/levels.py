"""Calls at the levels of the paper: everything anew for each call, or a context that is kept.

Source: Phung and others, "Accelerating Function-Centric Applications by Discovering, Distributing, and
Retaining Reusable Context in Workflow Systems", section 4: L1 has everything from a shared file system for each
task, L2 from the disk of the node, L3 keeps it in memory. L1 and L2 both start an interpreter and set the
context up for each call, and all files are on the local disk: on one machine they are the same.
"""

import importlib
from collections.abc import Callable
from copy import copy
from typing import Any

from benches import adapters
from benches.adapters.base import Engine
from benches.model import Settings, Unavailable

#: What `gristmill.Context` calls each level.
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
        if settings.ours != adapters.OURS:
            raise Unavailable(f"{settings.ours} has no adapter for contexts")
        self.engine: Engine = adapters.ours(settings.ours, workers)
        gristmill = importlib.import_module("gristmill")
        #: Its name is for messages; contexts of two levels differ anyhow.
        self.context: Any = gristmill.Context(
            setup, *arguments, name=f"{setup.__name__} at {level}", reuse=REUSE[level]
        )

    @property
    def submit(self) -> Callable[..., Any]:
        """The engine's own `submit`, in the context; the engine has to be started."""
        submit: Callable[..., Any] = self._executor.options(context=self.context).submit
        return submit

    @property
    def inside(self) -> Engine:
        """The engine as one all of whose tasks are in the context; the engine has to be started."""
        engine = copy(self.engine)
        engine.submit = self.submit
        return engine

    def report(self) -> Any:
        """What the context cost so far."""
        return self.context.report(self._executor)

    @property
    def _executor(self) -> Any:
        return getattr(self.engine, "executor", None)

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls in the context and waits."""
        return self.engine.result(self.submit(function, *arguments))


def saving(faster: float, slower: float) -> float:
    """Works out which percentage of the slower time the faster one saves."""
    return 100 * (1 - faster / slower)


def expected_saving(setup: float, compute: float) -> float:
    """Works out which percentage a call saves that finds its context set up already."""
    return 100 * setup / (setup + compute)


def deviation(measured: float, expected: float) -> float:
    """Works out how far a figure is from the expected one, in percent of that."""
    return 100 * abs(measured / expected - 1)
