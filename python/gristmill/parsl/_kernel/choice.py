"""The choice of an executor for a task that may run on several: the fewest outstanding tasks for each worker."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING, Any

from gristmill import _native
from gristmill.parsl._kernel.executors.blocks import workers_here
from gristmill.parsl._kernel.executors.engine import GristmillExecutor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def chooser(
    kind: str, executors: Mapping[str, Any], outstanding: Mapping[str, int]
) -> Callable[[Sequence[str]], str]:
    """Makes the function that picks one of several labels.

    :param kind: ``"least_loaded"``, or ``"random"`` as Parsl does it.
    :param executors: by label.
    :param outstanding: how many of the graph's tasks of a label are not final.
    """
    if kind == "random":
        return random.choice

    def least_loaded(labels: Sequence[str]) -> str:
        loads = [_load(executors.get(label), outstanding.get(label, 0)) for label in labels]
        least = min(loads)
        return random.choice([labels[i] for i, load in enumerate(loads) if load == least])

    return least_loaded


def _load(executor: Any, outstanding: int) -> float:
    """Returns the outstanding tasks for each worker. A label without an executor counts as one worker."""
    if isinstance(executor, GristmillExecutor):
        # The executor has tasks that the graph never sees. The graph has tasks that it has not submitted yet.
        outstanding = max(outstanding, executor.stats().outstanding)
    return outstanding / worker_count(executor)


def worker_count(executor: Any) -> float:
    """Returns how many tasks an executor can run at the same time, without asking other processes; 1 if unknown."""
    if hasattr(executor, "max_threads"):
        # The default of the standard library.
        return executor.max_threads or min(32, (os.cpu_count() or 1) + 4)
    if isinstance(executor, GristmillExecutor) and executor.block_count is None:
        return workers_here(executor) or _native.cpu_count()
    on_node = getattr(executor, "workers_per_node", 1)
    if not isinstance(on_node, (int, float)) or not 1 <= on_node < float("inf"):
        return 1
    blocks = getattr(executor, "block_count", len(getattr(executor, "blocks_to_job_id", ())))
    nodes: int = getattr(getattr(executor, "provider", None), "nodes_per_block", 1)
    return on_node * max(1, blocks) * nodes
