"""The number of a kernel's tasks in each state, for the tasks of its graph and those that engines run alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gristmill.parsl._kernel.states import States

if TYPE_CHECKING:
    from collections.abc import Mapping

_FAILURES = ("failed", "timed_out", "lost", "refused")


def count_states(
    of_graph: Mapping[States, int], of_engine: Mapping[str, int], attempts: Mapping[str, int]
) -> dict[States, int]:
    """Adds up the states of all tasks.

    :param of_graph: the graph's tasks by state.
    :param of_engine: the sum of ``Executor.stats()`` of all engines, by field.
    :param attempts: how many of the engines' tasks are attempts of graph tasks: the number ``submitted``, and the
        numbers that ``succeeded``, ``failed`` and were ``cancelled``.
    """
    counts = dict(of_graph)
    if not of_engine:
        return counts
    ended = sum(attempts[outcome] for outcome in ("succeeded", "failed", "cancelled"))
    outstanding = of_engine["outstanding"] - (attempts["submitted"] - ended)
    launched = min(of_engine["in_flight"], outstanding)
    failed = sum(of_engine[outcome] for outcome in _FAILURES)
    for state, count in (
        (States.pending, outstanding - launched),
        (States.launched, launched),
        (States.exec_done, of_engine["succeeded"] - attempts["succeeded"]),
        (States.failed, failed - attempts["failed"]),
        (States.dep_fail, of_engine["dependency_failed"]),
        (States.cancelled, of_engine["cancelled"] - attempts["cancelled"]),
    ):
        # The counts of graph and engines were not read at the same moment, so a difference may be negative.
        counts[state] += max(count, 0)
    return counts
