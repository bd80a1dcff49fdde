"""What Dask sets up on its workers: an agent for each."""

from __future__ import annotations

import importlib
from typing import Any

from gristmill._nodes.hosted import HostedAgent

_WorkerPlugin: Any = importlib.import_module("distributed").WorkerPlugin


class AgentPlugin(_WorkerPlugin):  # type: ignore[misc]
    """Keeps an agent running beside a worker, until the worker ends.

    :param join: where the agent's client may be.
    :param key: the nodes' key.
    :param workers: workers to offer; the threads of the Dask worker if not given.
    """

    def __init__(self, join: list[str], key: str, workers: int | None) -> None:
        self._arguments = join, key
        self._workers = workers
        self._agent: HostedAgent | None = None

    def setup(self, worker: Any) -> None:
        """Starts the agent."""
        count = self._workers or worker.state.nthreads
        self._agent = HostedAgent(*self._arguments, f"dask-{worker.name}", count)

    def teardown(self, worker: Any) -> None:
        """Lets the agent leave."""
        if self._agent is not None:
            self._agent.stop()
            self._agent = None
