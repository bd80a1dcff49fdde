"""The measurements of a client on a cluster: each work chooses its sizes and returns one sample a call."""

import importlib
from collections.abc import Callable
from time import perf_counter
from typing import Any

from benches.harness import percentile, seconds, sized
from benches.model import Settings, Unavailable
from benches.nodes.engines import GristmillOnNodes, OnNodes
from benches.rows.throughput import burst
from benches.work import noop

#: A function that takes a sample, and the chosen sizes.
Work = tuple[Callable[[], float], dict[str, Any]]
#: The index of the requested Fibonacci number: of ours, and of peers, which take as long for far fewer calls.
OURS_NUMBER, PEER_NUMBER = 25, 12


def flood(engine: OnNodes, settings: Settings) -> Work:
    """Measures tasks a second, submitted one by one, until all results."""
    run = burst(engine)
    count = sized(settings, run)
    return lambda: count / seconds(run, count), {"tasks": count}


def trip(engine: OnNodes, settings: Settings) -> Work:
    """Measures the seconds of a call with its wait, the median of many."""
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
    """Measures the seconds a call of a recursion in which each call is a task."""
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
    """Returns a Fibonacci number, and the number of calls in its recursion."""
    value, following = 0, 1
    for _ in range(number):
        value, following = following, value + following
    return value, 2 * following - 1


WORKS: dict[str, Callable[[OnNodes, Settings], Work]] = {
    work.__name__: work for work in (flood, trip, fibonacci)
}
