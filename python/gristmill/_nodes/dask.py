"""Agents beside the workers of a Dask cluster, which come and go with these."""

from __future__ import annotations

import functools
import importlib
import logging
import os
import threading
import time

from gristmill import _options
from gristmill._nodes.affinity import checked
from gristmill._nodes.cluster_trouble import ClusterTrouble
from gristmill._nodes.network import network_of
from gristmill._nodes.new_texts import NewTexts
from gristmill._nodes.outside_calls import CallLimit, OutsideCalls
from gristmill._nodes.placement import CopiedPlacement
from gristmill._reasons import reason_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from gristmill._nodes.network import Network

_log = logging.getLogger("gristmill.nodes")

#: The time between two polls of the cluster, seconds. Each poll asks the scheduler, and the workers if agents are
#: missing.
_LOOK_S = 5.0
#: The time limit of the last poll when the executor ends, seconds: a cluster that is gone does not answer.
_LAST_LOOK_S = 5.0
#: The client waits for a scheduler that is gone for as long as the program runs.
_LIMITS = {
    "register_plugin": CallLimit(60.0, _LAST_LOOK_S),
    "nthreads": CallLimit(30.0, _LAST_LOOK_S),
    "run": CallLimit(60.0, _LAST_LOOK_S),
    "unregister_worker_plugin": CallLimit(30.0, _LAST_LOOK_S, is_last=True),
}
#: The name of the cluster in messages.
_CLUSTER = "the Dask cluster"


class DaskNodes(CopiedPlacement):
    """A placement with one agent for each worker of the cluster.

    Dask sets a plugin up on every worker that exists, that joins, and that its nanny restarts. Long-running Dask tasks
    are not used instead: they occupy a thread of the worker and stop the cluster from scaling.

    :param client: a connected ``distributed.Client`` that is not asynchronous.
    :param workers: workers of each agent; by default the threads of the Dask worker.
    :param network: where nodes connect to this program, and their groups; a function is called on the nodes.
    :param cpu_affinity: the policy that binds workers to cores.
    """

    def __init__(
        self,
        client: Any,
        workers: int | None,
        network: Network | None = None,
        cpu_affinity: str = "none",
    ) -> None:
        if not hasattr(client, "register_plugin") or getattr(client, "asynchronous", False):
            raise TypeError(
                f"{_options.shown(client)} is not a Dask client that any thread can use"
            )
        self._dask = client
        self.workers = _options.workers("workers", workers)
        self.network = network_of(network)
        self.listen = self.network.listen
        self.cpu_affinity = checked(cpu_affinity)
        self._forget_run()

    def _forget_run(self) -> None:
        """Forgets the plugin and the state of the cluster."""
        self._name = ""
        self._failures: list[tuple[str, str]] = []
        #: The texts of each worker in that list.
        self._texts: dict[str, NewTexts] = {}
        self._calls = OutsideCalls("the Dask client", _LIMITS)
        self._trouble = ClusterTrouble(_CLUSTER, _LOOK_S)
        #: The workers at the last poll; below, whether each agent offers its part of its host among these workers.
        self._seen: set[str] = set()
        self._is_fit = True
        self._ends = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, address: str | None, key: str) -> None:
        """Registers the plugin with Dask and starts to poll the cluster."""
        self._forget_run()
        plugins = importlib.import_module("gristmill._nodes.dask_plugin")
        self._name = f"gristmill-{os.urandom(4).hex()}"
        kind = self.workers, self.network.group, self.cpu_affinity
        plugin = plugins.AgentPlugin(self.network.addresses(address), key, *kind)
        register = functools.partial(self._dask.register_plugin, name=self._name)
        try:
            # It returns once all workers have started their agents, which takes long on a large cluster. Agents that
            # join show that it goes on.
            self._calls.call(
                "register_plugin", register, plugin, progress=lambda: len(self.client.nodes())
            )
        except Exception as error:  # an exception that a worker of the cluster has raised
            self.client.give_up(
                f"the workers of the Dask cluster start no agents: {reason_of(error)}"
            )
            return
        self._thread = threading.Thread(
            target=self._run, args=(plugins,), name="gristmill-dask", daemon=True
        )
        self._thread.start()

    def end(self) -> None:
        """Stops polling and unregisters the plugin, which ends the agents."""
        self._ends.set()
        self._calls.begin_end()
        if self._thread is not None:
            self._thread.join(_LAST_LOOK_S)
        self._leave()

    def failures(self) -> list[tuple[str, str]]:
        """Returns the workers that have no agent, and the reasons; also why the cluster does not answer."""
        waiting = self._calls.waiting()
        of_cluster = [(_CLUSTER, waiting)] if waiting else self._trouble.failures()
        return [*self._failures, *of_cluster]

    def _ask(self, method: str, /, *arguments: Any, **named: Any) -> Any:
        """Calls a method of the client. Raises its exception, and ``TimeoutError`` after its limit."""
        function = functools.partial(getattr(self._dask, method), **named)
        return self._calls.call(method, function, *arguments)

    def _run(self, plugins: Any) -> None:
        pause_s: float | None = _LOOK_S
        while not self._ends.wait(pause_s):
            if self.client.is_over():
                self._leave()
                return
            begun_at = time.monotonic()
            try:
                self._fit(plugins.fit_agent)
                is_left_alone = self._look(plugins.condition_of_agent)
            except Exception as error:  # the scheduler may be unreachable for a while
                lasted_s = time.monotonic() - begun_at
                pause_s = self._trouble.note(error, lasted_s, self.client.has_node())
                if pause_s is None and not self._ends.is_set():
                    self.client.give_up(f"{_CLUSTER}: {self._trouble.text}")
                    return
                continue
            self._trouble.clear()
            pause_s = _LOOK_S
            if is_left_alone:
                self.client.give_up("; ".join(f"{name}: {text}" for name, text in self._failures))
                return

    def _workers(self) -> Any:
        """Returns the workers of the cluster. Raises ``ConnectionError`` if the client is closed."""
        if getattr(self._dask, "status", None) == "closed":
            raise ConnectionError("the Dask client is closed")
        return self._ask("nthreads")

    def _fit(self, fit: Any) -> None:
        """Makes agents adopt their part of the host after Dask workers came or went, each once it has no task."""
        workers = set(self._workers())
        if workers != self._seen:
            self._seen, self._is_fit = workers, False
        if not self._is_fit:
            answers = self._ask("run", fit, self._name, self._idle(), on_error="return")
            self._is_fit = all(one is True for one in answers.values())

    def _idle(self) -> list[str]:
        """Returns the nodes that certainly have no task."""
        nodes = self.client.nodes()
        if sum(node.tasks for node in nodes) < self.client.tasks_on_nodes():
            return []  # some tasks left after the nodes' last heartbeats: their nodes are unknown
        return [node.name for node in nodes if not node.tasks]

    def _look(self, look: Any) -> bool:
        """Updates the agents' conditions. Returns whether the cluster has workers and no agent is started again."""
        if len(self.client.nodes()) >= len(self._seen):
            self._failures = [] if self._seen else [(_CLUSTER, "it has no workers")]
            self._texts = {}
            return False
        answers = self._ask("run", look, self._name, on_error="return")
        conditions = {
            name: (str(one), False) if isinstance(one, BaseException) else one
            for name, one in answers.items()
        }
        failures = [(name, text) for name, (text, _) in conditions.items() if text]
        self._texts = {name: self._texts.get(name) or NewTexts() for name, _ in failures}
        for name, text in failures:
            if self._texts[name].is_new(text):
                _log.info("the worker %s has no agent: %s", name, text)
        self._failures = failures
        return bool(conditions) and all(is_alone for _, is_alone in conditions.values())

    def _leave(self) -> None:
        name, self._name = self._name, ""
        if not name:
            return
        try:
            self._ask("unregister_worker_plugin", name)
        except Exception as error:  # the cluster and its agents may be gone
            _log.info("the agents of the Dask cluster end by themselves: %s", reason_of(error))
