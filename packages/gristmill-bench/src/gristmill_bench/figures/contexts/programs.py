"""The program of the paper's figures 4 and 5, as tasks and in a context: data sent, work done, state kept."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any

import gristmill
from gristmill import on
from gristmill_bench.errors import BenchError
from gristmill_bench.figures.bounded import left_at_once
from gristmill_bench.figures.data import Data
from gristmill_bench.figures.figure import Figure, Relation
from gristmill_bench.figures.session import Case, Sample, Session

_TASK, _INVOCATION = "task", "invocation"
_CALLS = 10
#: Below a megabyte, so that the data travels with each task that has it as an argument, as in the paper's tasks.
_DATA_SIZE = 500_000
_SENT, _SETUPS, _FOUND = (
    "bytes sent for a call",
    "setups",
    "calls that found those before them",
)


def context_setup(data: bytes, y: int) -> dict[str, Any]:
    """Returns the setup of the computation: a model of the data, with a new random name each time."""
    return {"model": sum(data) + y, "name": os.urandom(8), "calls": []}


def f(context: Any, x: int) -> tuple[int, bytes, bool]:
    """Returns the value of the computation, the name of its setup, and whether an earlier call used that setup."""
    before = bool(context["calls"])
    context["calls"].append(x)
    return context["model"] + x, context["name"], before


def whole(data: bytes, y: int, x: int) -> tuple[int, bytes, bool]:
    """Runs setup and computation: the function of a task, which finds no state and leaves none."""
    return f(context_setup(data, y), x)


class Programs(Figure):
    """The paper's example: ten calls of a function that needs half a megabyte of data and a setup, on one node, whose
    agent is on this machine. As tasks, the calls bring data and arguments and set up themselves; as invocations, they
    use a context that the node gets once. The paper's table describes the needs of both in words: a task is stateless,
    needs nothing of its worker, and brings code, data and arguments; an invocation needs code and data on its node, and
    brings arguments. Here the needs are counted.
    """

    key = "contexts-table-1"
    source = "Function contexts, table 1 and figures 4 and 5"
    title = "Tasks and invocations: what is sent, done and kept"
    across = "of ten calls"
    upward = "bytes, and numbers"
    form = "table"
    relations = (
        Relation(
            "a task brings code, data and arguments: each at least the data",
            lambda data: _sends(data, _TASK, _DATA_SIZE, None),
        ),
        Relation(
            "an invocation brings its arguments alone: less than a kilobyte, once the context is there",
            lambda data: _sends(data, _INVOCATION, 0, 1_000),
        ),
        Relation("each task sets up", lambda data: _is(data, _TASK, _SETUPS, _CALLS)),
        Relation("invocations share one setup", lambda data: _is(data, _INVOCATION, _SETUPS, 1)),
        Relation(
            "a task is without state: it finds nothing of the one before",
            lambda data: _is(data, _TASK, _FOUND, 0),
        ),
        Relation(
            "an invocation has state: it finds what was set up, and those before it, but for the first",
            lambda data: _is(data, _INVOCATION, _FOUND, _CALLS - 1),
        ),
    )

    def measure(self, session: Session) -> Data:
        """Runs both programs."""
        cases = [Case(name, "all", partial(counted, name)) for name in (_TASK, _INVOCATION)]
        return session.turns(self.empty(), cases)


def counted(name: str) -> Iterator[Sample]:
    """Runs one of the programs on a node with one worker; counts bytes, setups and shared state."""
    data = os.urandom(_DATA_SIZE)
    try:
        with gristmill.Executor(nodes=on.local(1, 1)) as executor, left_at_once(executor):
            submit = _submit(executor, name, data)
            # The first call comes with the data that is sent once.
            found = [submit(0).result()]
            before = _sent(executor)
            found += [submit(x).result() for x in range(1, _CALLS)]
            sent = (_sent(executor) - before) / (_CALLS - 1)
    except gristmill.GristmillError as error:
        raise BenchError(f"{name}: {error}") from error
    model = sum(data) + 1
    if [value for value, _, _ in found] != [model + x for x in range(_CALLS)]:
        raise BenchError(f"{name}: calls have found other values than a model of {model} gives")
    yield Sample(name, _SENT, sent)
    yield Sample(name, _SETUPS, float(len({setup for _, setup, _ in found})))
    yield Sample(name, _FOUND, float(sum(before for _, _, before in found)))


def _submit(executor: gristmill.Executor, name: str, data: bytes) -> Callable[[int], Future[Any]]:
    """Returns the callable by which a program submits: with all data, or in a context."""
    if name == _TASK:
        return partial(executor.submit, whole, data, 1)
    context = gristmill.Context(context_setup, data, 1)
    return partial(executor.options(context=context).submit, f, context)


def _sent(executor: gristmill.Executor) -> int:
    """Returns the bytes that the node was sent so far."""
    (node,) = executor.nodes()
    return node.sent_bytes


def _is(data: Data, series: str, what: str, number: float) -> tuple[bool, str]:
    found = data.at(series, what)
    return found == number, f"{found:g}"


def _sends(data: Data, series: str, least: float, most: float | None) -> tuple[bool, str]:
    found = data.at(series, _SENT)
    return least <= found and (most is None or found <= most), f"{found:,.0f} bytes"
