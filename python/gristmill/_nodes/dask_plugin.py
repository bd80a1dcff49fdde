"""The Dask worker plugin that keeps one agent beside each worker."""

from __future__ import annotations

import importlib
import socket
from collections.abc import Collection, Mapping
from typing import Any

from gristmill._nodes.groups import Group, group_of
from gristmill._nodes.hosted import HostedAgent
from gristmill._nodes.parts import Part

_WorkerPlugin: Any = importlib.import_module("distributed").WorkerPlugin


class AgentPlugin(_WorkerPlugin):  # type: ignore[misc]
    """A plugin that keeps an agent running beside a worker until the worker ends.

    :param join: the possible addresses of the agent's client.
    :param key: the nodes' key.
    :param workers: workers to offer; by default the threads of the Dask worker.
    :param group: the group of near nodes, or a function that returns it for a host name.
    :param cpu_affinity: the policy that binds workers to cores.
    """

    def __init__(
        self,
        join: list[str],
        key: str,
        workers: int | None,
        group: Group = None,
        cpu_affinity: str = "none",
    ) -> None:
        self._arguments = join, key
        self._workers = workers
        self._group = group
        self._cpu_affinity = cpu_affinity
        self._agent: HostedAgent | None = None
        self._part: Part | None = None

    async def setup(self, worker: Any) -> None:
        """Starts the agent with its part of the host, given the other workers there that Dask knows now."""
        self._begin(worker, await _part_now(worker))

    def _begin(self, worker: Any, part: Part) -> None:
        count = self._workers or worker.state.nthreads
        group = group_of(self._group, socket.gethostname())
        self._part = part
        self._agent = HostedAgent(
            *self._arguments, _name(worker), count, group, part, self._cpu_affinity
        )

    async def fit(self, worker: Any, idle: Collection[str]) -> bool:
        """Replaces the agent if its part of the host has changed and it has no task.

        Returns whether the agent offers the current part.
        """
        part = await _part_now(worker)
        if self._agent is None or part == self._part:
            return True
        if _name(worker) not in idle:
            return False
        self._agent.retire()
        self._begin(worker, part)
        return True

    def teardown(self, worker: Any) -> None:
        """Lets the agent leave."""
        if self._agent is not None:
            self._agent.stop()
            self._agent = None

    def condition(self) -> tuple[str, bool]:
        """Returns why the agent does not run, empty if it runs, and whether it is not started again."""
        return ("it is not set up", False) if self._agent is None else self._agent.condition()


def condition_of_agent(name: str, dask_worker: Any) -> tuple[str, bool]:
    """Returns the condition of the agent of the named plugin; runs on a Dask worker."""
    plugin = dask_worker.plugins.get(name)
    if plugin is None:
        return "it has no agent yet", False
    condition: tuple[str, bool] = plugin.condition()
    return condition


async def fit_agent(name: str, idle: Collection[str], dask_worker: Any) -> bool:
    """Makes the agent of the named plugin offer its current part. Returns whether it does.

    :param idle: the names of nodes that have no task.
    """
    plugin = dask_worker.plugins.get(name)
    # A plugin that is set up later determines its part itself.
    return plugin is None or bool(await plugin.fit(dask_worker, idle))


def _name(worker: Any) -> str:
    return f"dask-{worker.name}"


async def _part_now(worker: Any) -> Part:
    cluster = await worker.scheduler.identity()
    return part_of_worker(cluster["workers"], worker.address)


def part_of_worker(workers: Mapping[str, Any], address: str) -> Part:
    """Returns a worker's part of its host, given all workers by address. Every worker computes the same order."""
    host = workers[address].get("host")
    # A restarted worker keeps its name, but not always its address.
    names = {one: str(facts.get("name", one)) for one, facts in workers.items()}
    here = sorted(
        (one for one, facts in workers.items() if facts.get("host") == host),
        key=lambda one: (len(names[one]), names[one], one),
    )
    return Part(here.index(address), len(here))
