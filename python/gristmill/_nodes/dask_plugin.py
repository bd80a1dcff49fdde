"""What Dask sets up on its workers: an agent for each."""

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
    """Keeps an agent running beside a worker, until the worker ends.

    :param join: where the agent's client may be.
    :param key: the nodes' key.
    :param workers: workers to offer; the threads of the Dask worker if not given.
    :param group: nodes that it is near to, also by the name of the worker's host.
    :param cpu_affinity: binds workers to cores.
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
        """Starts the agent, with its part of the host as far as Dask knows of other workers there by now."""
        self._begin(worker, await _part_now(worker))

    def _begin(self, worker: Any, part: Part) -> None:
        count = self._workers or worker.state.nthreads
        group = group_of(self._group, socket.gethostname())
        self._part = part
        self._agent = HostedAgent(
            *self._arguments, _name(worker), count, group, part, self._cpu_affinity
        )

    async def fit(self, worker: Any, idle: Collection[str]) -> bool:
        """Has the agent offer the part that its worker has by now, by another one in its place if it has nothing to do.

        Says whether it offers that.
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
        """Why the agent does not run, which is empty if it does, and whether it is left alone."""
        return ("it is not set up", False) if self._agent is None else self._agent.condition()


def condition_of_agent(name: str, dask_worker: Any) -> tuple[str, bool]:
    """What the plugin of that name says on a worker, where this runs."""
    plugin = dask_worker.plugins.get(name)
    if plugin is None:
        return "it has no agent yet", False
    condition: tuple[str, bool] = plugin.condition()
    return condition


async def fit_agent(name: str, idle: Collection[str], dask_worker: Any) -> bool:
    """Has the agent of the plugin of that name offer its part as it is now; says whether it does.

    :param idle: the names of nodes that have nothing to do.
    """
    plugin = dask_worker.plugins.get(name)
    # One that comes later finds its part itself.
    return plugin is None or bool(await plugin.fit(dask_worker, idle))


def _name(worker: Any) -> str:
    return f"dask-{worker.name}"


async def _part_now(worker: Any) -> Part:
    cluster = await worker.scheduler.identity()
    return part_of_worker(cluster["workers"], worker.address)


def part_of_worker(workers: Mapping[str, Any], address: str) -> Part:
    """The part of its host that a worker has, of all workers by address; each of them comes to the same order."""
    host = workers[address].get("host")
    # Names stay when a worker is started again, addresses need not.
    names = {one: str(facts.get("name", one)) for one, facts in workers.items()}
    here = sorted(
        (one for one, facts in workers.items() if facts.get("host") == host),
        key=lambda one: (len(names[one]), names[one], one),
    )
    return Part(here.index(address), len(here))
