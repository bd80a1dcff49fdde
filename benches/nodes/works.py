"""What a client on a cluster is measured at: each work sizes itself and gives one sample a call."""

import importlib
from collections.abc import Callable
from time import perf_counter
from typing import Any

from benches.harness import percentile, seconds, sized
from benches.model import Settings, Unavailable
from benches.nodes.engines import GristmillOnNodes, OnNodes
from benches.rows.throughput import burst
from benches.work import noop

#: A sample, and what it was sized to.
Work = tuple[Callable[[], float], dict[str, Any]]
#: Which Fibonacci number is asked for: of ours, and of peers, which take as long for far fewer calls.
OURS_NUMBER, PEER_NUMBER = 25, 12


def flood(engine: OnNodes, settings: Settings) -> Work:
    """Tasks a second, submitted one by one, to all results."""
    run = burst(engine)
    count = sized(settings, run)
    return lambda: count / seconds(run, count), {"tasks": count}


def trip(engine: OnNodes, settings: Settings) -> Work:
    """Seconds of a call that is waited for, p50 of many."""
    submit, result = engine.submit, engine.result

    def calls(count: int) -> list[float]:
        took = []
        before = perf_counter()
        for number in range(count):
            result(submit(noop, number))
            after = perf_counter()
            took.append(after - before)
            before = after
        return took

    count = sized(settings, calls)
    return lambda: percentile(sorted(calls(count)), 0.5), {"calls": count}


def fibonacci(engine: OnNodes, settings: Settings) -> Work:
    """Seconds a call of a recursion in which each call is a task."""
    if not engine.recursion:
        raise Unavailable(f"tasks of {engine.name} cannot wait for tasks")
    function = importlib.import_module(engine.recursion).fibonacci
    number = OURS_NUMBER if isinstance(engine, GristmillOnNodes) else PEER_NUMBER
    value, calls = fibonacci_of(number)

    def run(_: int) -> None:
        if engine.result(engine.submit(function, number)) != value:
            raise RuntimeError(f"{engine.name} returned a wrong number")

    run(0)
    return lambda: seconds(run, calls) / calls, {"number": number, "calls": calls}


def fibonacci_of(number: int) -> tuple[int, int]:
    """Returns a Fibonacci number, and how many calls its recursion makes."""
    value, following = 0, 1
    for _ in range(number):
        value, following = following, value + following
    return value, 2 * following - 1


WORKS: dict[str, Callable[[OnNodes, Settings], Work]] = {
    work.__name__: work for work in (flood, trip, fibonacci)
}
