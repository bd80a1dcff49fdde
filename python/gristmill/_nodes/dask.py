"""Agents beside the workers of a Dask cluster, which come and go with these."""

from __future__ import annotations

import importlib
import logging
import os
import threading

from gristmill._nodes.affinity import checked
from gristmill._nodes.placement import Placement

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from gristmill._nodes.door import Door
    from gristmill._nodes.groups import Group

_log = logging.getLogger("gristmill.nodes")

#: Time between two looks at the cluster, seconds: each asks the scheduler, and the workers if agents are missing.
_LOOK_S = 5.0
#: How long the last look may take when the executor ends, seconds: a cluster that is gone answers none.
_LAST_LOOK_S = 5.0


class DaskNodes(Placement):
    """An agent for each worker of the cluster.

    Dask sets a plugin up on every worker that there is, that comes, and that its nanny starts again. Long tasks were
    the other way; they take a thread of the worker and stop the cluster from scaling.

    :param client: a connected ``distributed.Client`` that is not asynchronous.
    :param workers: workers of each agent; the threads of the Dask worker if not given.
    :param door: where nodes find this program.
    :param group: nodes that they are near to; a function is called on them.
    :param cpu_affinity: binds workers to cores.
    """

    def __init__(
        self,
        client: Any,
        workers: int | None,
        door: Door,
        group: Group = None,
        cpu_affinity: str = "none",
    ) -> None:
        if not hasattr(client, "register_plugin") or getattr(client, "asynchronous", False):
            raise TypeError(f"{client!r} is no client of Dask's that can be used from any thread")
        self._dask = client
        self.workers = workers
        self.door = door
        self.listen = door.listen
        self.group = group
        self.cpu_affinity = checked(cpu_affinity)
        self._name = ""
        self._troubles: list[tuple[str, str]] = []
        #: The workers that there were at the last look, and whether each agent offers its part among these.
        self._seen: set[str] = set()
        self._is_fit = True
        self._ends = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, address: str | None, key: str) -> None:
        """Tells Dask of the plugin, and begins to look at the cluster."""
        plugins = importlib.import_module("gristmill._nodes.dask_plugin")
        self._name = f"gristmill-{os.urandom(4).hex()}"
        kind = self.workers, self.group, self.cpu_affinity
        plugin = plugins.AgentPlugin(self.door.told(address), key, *kind)
        try:
            self._dask.register_plugin(plugin, name=self._name)
        except Exception as error:  # what a worker of the cluster has raised
            self.client.give_up(f"the workers of the Dask cluster start no agents: {error}")
            return
        self._ends.clear()
        self._seen.clear()
        self._thread = threading.Thread(
            target=self._run, args=(plugins,), name="gristmill-dask", daemon=True
        )
        self._thread.start()

    def end(self) -> None:
        """Tells Dask that nothing is needed any more."""
        self._ends.set()
        if self._thread is not None:
            self._thread.join(_LAST_LOOK_S)
        self._leave()

    def troubles(self) -> list[tuple[str, str]]:
        """Which workers of the cluster have no agent, and why."""
        return self._troubles

    def _run(self, plugins: Any) -> None:
        while not self._ends.wait(_LOOK_S):
            if self.client.is_over():
                self._leave()
                return
            try:
                self._fit(plugins.fit_agent)
                is_left_alone = self._look(plugins.condition_of_agent)
            except Exception as error:  # the scheduler may be away for a while
                _log.warning("the Dask cluster cannot be looked at: %s", error)
                continue
            if is_left_alone:
                self.client.give_up("; ".join(f"{name}: {text}" for name, text in self._troubles))
                return

    def _fit(self, fit: Any) -> None:
        """Has agents offer their parts anew once workers have come or gone, each as soon as it has nothing to do."""
        workers = set(self._dask.nthreads())
        if workers != self._seen:
            self._seen, self._is_fit = workers, False
        if not self._is_fit:
            told = self._dask.run(fit, self._name, self._idle(), on_error="return")
            self._is_fit = all(one is True for one in told.values())

    def _idle(self) -> list[str]:
        """The nodes that have nothing to do, as far as that is certain."""
        nodes = self.client.nodes()
        if sum(node.tasks for node in nodes) < self.client.tasks_on_nodes():
            return []  # some went out after a node's last sign of life: nobody knows where
        return [node.name for node in nodes if not node.tasks]

    def _look(self, look: Any) -> bool:
        """Learns how the agents are; says whether the cluster has workers, and the agents of all are left alone."""
        if len(self.client.nodes()) >= len(self._dask.nthreads()):
            self._troubles = []
            return False
        told = self._dask.run(look, self._name, on_error="return")
        conditions = {
            name: (str(one), False) if isinstance(one, BaseException) else one
            for name, one in told.items()
        }
        troubles = [(name, text) for name, (text, _) in conditions.items() if text]
        for name, text in troubles:
            if (name, text) not in self._troubles:
                _log.info("the worker %s has no agent: %s", name, text)
        self._troubles = troubles
        return bool(conditions) and all(is_alone for _, is_alone in conditions.values())

    def _leave(self) -> None:
        name, self._name = self._name, ""
        if not name:
            return
        try:
            self._dask.unregister_worker_plugin(name)
        except Exception as error:  # the cluster may be gone, and with it the agents
            _log.info("the agents of the Dask cluster end by themselves: %s", error)
