"""The levels at which calls share what they need, and timed calls at each level.

Source: Phung et al., *Accelerating Function-Centric Applications by Discovering, Distributing, and Retaining Reusable
Context in Workflow Systems*, section 4.2: at L1 a call loads all that it needs from a shared file system, at L2 from
the disk of its node, at L3 it has it in memory. L1 and L2 start an interpreter for each call and set up in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from time import perf_counter
from typing import Any, Literal, NamedTuple

import gristmill
from gristmill.instruments import with_reuse
from gristmill_bench.errors import BenchError
from gristmill_bench.figures.bounded import left_at_once

Reuse = Literal["memory", "disk", "none"]
#: The reuse of a context for each level.
LEVELS: dict[str, Reuse] = {"L1": "none", "L2": "disk", "L3": "memory"}
#: Seconds after which a call counts as hung.
_CALL_MAX_S = 120.0


class Timed(NamedTuple):
    """A call that has ended."""

    seconds: float
    result: Any


class Level:
    """An executor with a context at some level."""

    def __init__(self, executor: gristmill.Executor, context: gristmill.Context) -> None:
        self.executor = executor
        self.context = context
        #: The ``submit`` of the executor, within the context.
        self.submit: Callable[..., Future[Any]] = executor.options(context=context).submit

    def call(self, function: Callable[..., Any], *arguments: Any) -> Timed:
        """Calls a function and waits; the function gets the context before its arguments."""
        (timed,) = self.calls(function, [arguments], 1)
        return timed

    def calls(
        self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], at_once: int
    ) -> list[Timed]:
        """Calls a function with each of the arguments, ``at_once`` at a time; returns the calls as they ended."""
        begun: dict[Future[Any], float] = {}
        left = iter(arguments)
        ended: list[Timed] = []
        while True:
            while len(begun) < at_once and (one := next(left, None)) is not None:
                start = perf_counter()
                begun[self.submit(function, self.context, *one)] = start
            if not begun:
                return ended
            done, _ = wait(begun, _CALL_MAX_S, FIRST_COMPLETED)
            now = perf_counter()
            if not done:
                raise BenchError(f"no call has ended within {_CALL_MAX_S:g} s")
            ended += [Timed(now - begun.pop(future), future.result()) for future in done]


@contextmanager
def opened(
    level: str, setup: Callable[..., Any], *arguments: Any, workers: int = 2, **options: Any
) -> Iterator[Level]:
    """Opens an executor with a context at a level; errors of Gristmill become a ``BenchError``.

    :param options: further options of the context.
    """
    name = f"{getattr(setup, '__name__', 'setup')} at {level}"
    try:
        with (
            gristmill.Executor(workers, threads_per_worker=1) as executor,
            left_at_once(executor),
        ):
            context = gristmill.Context(setup, *arguments, name=name, **options)
            yield Level(executor, with_reuse(context, LEVELS[level]))
    except gristmill.GristmillError as error:
        raise BenchError(f"{level}: {error}") from error
