"""Agents beside the workers of a Dask cluster, which come and go with these."""

from __future__ import annotations

import importlib
import logging
import os

from gristmill._nodes.addresses import reachable_at
from gristmill._nodes.placement import Placement, port_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_log = logging.getLogger("gristmill.nodes")


class DaskNodes(Placement):
    """An agent for each worker of the cluster.

    Dask sets a plugin up on every worker that there is, that comes, and that its nanny starts again: nothing has to be
    watched here. Long tasks were the other way; they take a thread of the worker and stop the cluster from scaling.

    :param client: a connected ``distributed.Client`` that is not asynchronous.
    :param workers: workers of each agent; the threads of the Dask worker if not given.
    :param address: where nodes find this program; anywhere if not given.
    :param interface: the network interface whose address is meant.
    """

    def __init__(
        self, client: Any, workers: int | None, address: str | None, interface: str | None
    ) -> None:
        if not hasattr(client, "register_plugin") or getattr(client, "asynchronous", False):
            raise TypeError(f"{client!r} is no client of Dask's that can be used from any thread")
        self._dask = client
        self.workers = workers
        self.address = address
        self.interface = interface
        self._name = ""

    def start(self, address: str | None, key: str) -> None:
        """Tells Dask of the plugin."""
        plugins = importlib.import_module("gristmill._nodes.dask_plugin")
        join = reachable_at(port_of(address), self.address, self.interface)
        self._name = f"gristmill-{os.urandom(4).hex()}"
        plugin = plugins.AgentPlugin(join, key, self.workers)
        try:
            self._dask.register_plugin(plugin, name=self._name)
        except Exception as error:  # what a worker of the cluster has raised
            self.client.give_up(f"the workers of the Dask cluster start no agents: {error}")

    def end(self) -> None:
        """Tells Dask that nothing is needed any more."""
        if not self._name:
            return
        name, self._name = self._name, ""
        try:
            self._dask.unregister_worker_plugin(name)
        except Exception as error:  # the cluster may be gone, and with it the agents
            _log.info("the agents of the Dask cluster end by themselves: %s", error)
