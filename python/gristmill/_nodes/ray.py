"""Agents as actors of a Ray cluster: one on each of its nodes, which come and go with these."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping

from gristmill import _options
from gristmill._nodes.affinity import checked
from gristmill._nodes.cluster_trouble import ClusterTrouble
from gristmill._nodes.groups import group_of
from gristmill._nodes.hosted import HostedAgent
from gristmill._nodes.network import network_of
from gristmill._nodes.new_texts import NewTexts
from gristmill._nodes.outside_calls import CallLimit, OutsideCalls
from gristmill._nodes.pauses import Pauses
from gristmill._nodes.placement import CopiedPlacement
from gristmill._reasons import reason_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from gristmill._nodes.network import Network

_log = logging.getLogger("gristmill.nodes")

#: The cluster that is joined without an address: that of the program's environment.
_AUTO = "auto"
#: True while the program has a connection that Gristmill has made.
_is_connection_made = False
#: The running placements that use this connection. The last one closes it.
_connected: list[RayNodes] = []
#: Serializes the making and the closing of the connection. Reentrant: a signal handler may end an executor.
_connection_lock = threading.RLock()
#: The time between two polls of the cluster, seconds.
_LOOK_S = 1.0
#: Ray waits for the head of a cluster that is gone for a long time, or for ever.
_LIMITS = {"nodes": CallLimit(60.0, 5.0), "kill": CallLimit(30.0, 10.0, is_last=True)}
#: The time limit for the end, seconds: that of the last calls, and some more.
_END_S = 20.0
#: The name of the cluster in messages.
_CLUSTER = "the Ray cluster"
#: The time Ray may take to start an actor before that is reported, seconds: an interpreter starts in a few.
_PENDING_S = 10.0


def connect(ray: Any, cluster: str | None, user: RayNodes | None = None) -> None:
    """Connects this program to a cluster unless it is connected. Raises ``ConnectionError`` if there is none.

    :param user: the placement that uses the connection from now on.
    """
    global _is_connection_made
    with _connection_lock:
        if not ray.is_initialized():
            ray.init(cluster or _AUTO, logging_level="warning")
            _is_connection_made = True
        if user is not None:
            _connected.append(user)


def disconnect(ray: Any, user: RayNodes) -> None:
    """Ends a placement's use of the connection, and closes the connection after its last use."""
    global _is_connection_made
    with _connection_lock:
        _connected.remove(user)
        if not _connected:
            _is_connection_made = False
            ray.shutdown()


def is_connection_ours(ray: Any) -> bool:
    """Returns whether the program has no connection, or one that Gristmill has made."""
    return _is_connection_made or not ray.is_initialized()


class RayAgentSlot:
    """The actor on one node of the cluster. Ray restarts it; if Ray gives it up, it is made anew.

    :param ray: the module.
    :param host: the name of the node of the cluster.
    :param options: options of the actor.
    :param arguments: the arguments of the agent.
    """

    def __init__(
        self, ray: Any, host: str, options: Mapping[str, Any], arguments: tuple[Any, ...]
    ) -> None:
        self._ray = ray
        self.host = host
        self._needs = _in_words(options)
        self._kind = ray.remote(HostedAgent).options(**options)
        self._arguments = arguments
        self._pauses = Pauses()
        #: Held while the actor is made, so that none is made after ``leave``. Reentrant, because ``attend`` may leave.
        self._lock = threading.RLock()
        self._has_left = False
        self._actor: Any = None
        self._answer: Any = None
        self._began_at = 0.0
        self._due_at: float | None = 0.0
        #: True if Ray has not started the actor yet, and this was not reported.
        self._is_pending = False
        self.failure = ""
        self._texts = NewTexts()

    @property
    def is_left_alone(self) -> bool:
        """True if the actor has failed too often to be made again."""
        return self._actor is None and self._due_at is None

    def attend(self, now: float) -> None:
        """Makes the actor if there is none, otherwise reads the condition of its agent."""
        if self._actor is None:
            self._make(now)
            return
        ready, _ = self._ray.wait([self._answer], timeout=0)
        if not ready:
            self._note_pending(now)
            return
        self._is_pending = False
        try:
            answer = self._ray.get(self._answer)
        except self._ray.exceptions.ActorUnavailableError as error:
            self.failure = str(error)  # Ray restarts the actor
        except Exception as error:
            self._lose(str(error), now)
            return
        else:
            self._hear(*answer)
        actor = self._actor
        if actor is not None:
            self._answer = actor.condition.remote()

    def _make(self, now: float) -> None:
        """Makes the actor if it is due."""
        with self._lock:
            if self._has_left or self._due_at is None or now < self._due_at:
                return
            self._began_at, self._due_at = now, None
            self._actor = self._kind.remote(*self._arguments)
            self._answer = self._actor.condition.remote()
            self._is_pending = True

    def _hear(self, failure: str, is_left_alone: bool) -> None:
        """Records the agent's condition. The actor restarts its agent until that has failed too often."""
        if not failure:
            self._texts.clear()
        elif self._texts.is_new(failure):
            _log.info("%s has no agent: %s", self.host, failure)
        self.failure = failure
        if is_left_alone:
            _log.warning(
                "%s gets no further agent, because its agent fails: %s", self.host, failure
            )
            self.leave()

    def _note_pending(self, now: float) -> None:
        """Reports once that Ray keeps the actor waiting: other users may hold the resources indefinitely."""
        if not self._is_pending or now - self._began_at < _PENDING_S:
            return
        self._is_pending = False
        self.failure = (
            f"Ray has not started an agent there for {_PENDING_S:g} s: either other programs "
            f"use {self._needs} of Ray, or the start is slow"
        )
        _log.warning("%s: %s", self.host, self.failure)

    def _lose(self, failure: str, now: float) -> None:
        self._actor, self.failure = None, failure
        pause = self._pauses.after(now - self._began_at)
        self._due_at = None if pause is None else now + pause
        log = _log.warning if pause is None else _log.info
        often = " once too often" if pause is None else ""
        log("the actor of %s was lost%s: %s", self.host, often, failure)

    def leave(self) -> None:
        """Ends the actor. None is made any more."""
        with self._lock:
            self._has_left = True
            actor, self._actor = self._actor, None
        if actor is not None:
            self._ray.kill(actor, no_restart=True)


class RayNodes(CopiedPlacement):
    """A placement with an actor and its agent on each node that has enough cores.

    :param ray: the module, with a connection to the cluster.
    :param is_ours: whether the connection ends with the executor, unless another placement uses it, and is made again
        for the next executor.
    :param nodes: the number of nodes; by default all.
    :param cpus: cores that each actor reserves; by default all of its node.
    :param workers: workers of each agent; by default one for each core.
    :param options: further options of the actors.
    :param network: where nodes connect to this program, and their groups.
    :param cpu_affinity: the policy that binds workers to cores.
    """

    def __init__(
        self,
        ray: Any,
        is_ours: bool,
        nodes: int | None,
        cpus: float | None,
        workers: int | None,
        options: Mapping[str, Any],
        network: Network | None = None,
        cpu_affinity: str = "none",
    ) -> None:
        self._ray = ray
        self._is_ours = is_ours
        self.nodes = _options.optional_count("nodes", nodes, 1, _options.SHORT_MAX)
        if cpus is not None:
            cpus = _options.number("cpus", cpus, 0, _options.SHORT_MAX)
        self.cpus = cpus
        self.workers = _options.workers("workers", workers)
        if not isinstance(options, Mapping):
            raise TypeError(f"options must be a dict, not {_options.shown(options)}")
        self.options = options
        self.network = network_of(network)
        self.listen = self.network.listen
        self.cpu_affinity = checked(cpu_affinity)
        self._forget_run()

    #: The cluster to connect to again; by default that of the program's environment.
    cluster: str | None = None

    def _forget_run(self) -> None:
        """Forgets the actors."""
        self._agent: tuple[list[str], str] = ([], "")
        self._slots: dict[str, RayAgentSlot] = {}
        #: Held while slots are made, so that none is made once the actors are ended: a poll that hung may go on then.
        self._lock = threading.Lock()
        self._has_left = False
        self._calls = OutsideCalls("Ray", _LIMITS)
        self._trouble = ClusterTrouble(_CLUSTER, _LOOK_S)
        self._ends = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, address: str | None, key: str) -> None:
        """Starts to poll the cluster."""
        self._forget_run()
        self._agent = self.network.addresses(address), key
        if self._is_ours:
            connect(self._ray, self.cluster, self)
        self._thread = threading.Thread(target=self._run, name="gristmill-ray", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Ends the actors. Does not wait for ever for a cluster that is gone."""
        self._ends.set()
        self._calls.begin_end()
        if self._thread is not None:
            self._thread.join(_END_S)

    def failures(self) -> list[tuple[str, str]]:
        """Returns the nodes that have no agent, and the reasons; also why the cluster does not answer."""
        seats = list(self._slots.values())
        found = [(seat.host, seat.failure) for seat in seats if seat.failure]
        waiting = self._calls.waiting()
        return [*found, *([(_CLUSTER, waiting)] if waiting else self._trouble.failures())]

    def _run(self) -> None:
        pause_s: float | None = _LOOK_S
        while True:
            begun_at = time.monotonic()
            try:
                self._calls.call("nodes", self._look)
                self._trouble.clear()
                pause_s = _LOOK_S
            except Exception as error:  # the head of the cluster may be unreachable for a while
                lasted_s = time.monotonic() - begun_at
                pause_s = self._trouble.note(error, lasted_s, self.client.has_node())
            is_lost = pause_s is None and not self._ends.is_set()
            # A look that hangs may go on beside this thread.
            seats = list(self._slots.values())
            if is_lost or (seats and all(seat.is_left_alone for seat in seats)):
                self.client.give_up("; ".join(f"{name}: {text}" for name, text in self.failures()))
                break
            if self._ends.wait(pause_s) or self.client.is_over():
                break
        self._calls.begin_end()
        try:
            self._calls.call("kill", self._leave)
        except Exception as error:
            _log.warning("the actors of the Ray cluster may be left: %s", reason_of(error))

    def _leave(self) -> None:
        """Ends the actors, and the connection that is not needed any more."""
        with self._lock:
            self._has_left = True
        try:
            for seat in list(self._slots.values()):
                seat.leave()
        finally:
            if self._is_ours:
                disconnect(self._ray, self)

    def _look(self) -> None:
        """Updates the slots to the cluster's current nodes, and attends to each slot."""
        found = {node["NodeID"]: node for node in self._ray.nodes() if self._is_usable(node)}
        for gone in self._slots.keys() - found.keys():
            self._slots.pop(gone).leave()
        with self._lock:
            for name, node in found.items():
                is_wanted = len(self._slots) < (self.nodes or len(found)) and not self._has_left
                if name not in self._slots and is_wanted:
                    self._slots[name] = self._make_slot(node)
        now = time.monotonic()
        for seat in list(self._slots.values()):
            # Ray would start a cluster of its own for a call after the connection was closed.
            if not self._has_left:
                seat.attend(now)

    def _is_usable(self, node: Mapping[str, Any]) -> bool:
        return bool(node["Alive"]) and node["Resources"].get("CPU", 0) >= (self.cpus or 1)

    def _make_slot(self, node: Mapping[str, Any]) -> RayAgentSlot:
        cpus = self.cpus or node["Resources"]["CPU"]
        strategies = self._ray.util.scheduling_strategies
        options = {
            "num_cpus": cpus,
            # Some versions of Ray hide all GPUs from an actor that has reserved none, others let it use reserved GPUs.
            "num_gpus": node["Resources"].get("GPU", 0),
            "max_restarts": -1,
            "scheduling_strategy": strategies.NodeAffinitySchedulingStrategy(
                node["NodeID"], soft=False
            ),
            **self.options,
        }
        join, key = self._agent
        cores = max(1, int(cpus))
        workers = self.workers or cores
        host = node["NodeManagerHostname"]
        group = group_of(self.network.group, host)
        agent = (join, key, host, workers, group, None, self.cpu_affinity, cores)
        return RayAgentSlot(self._ray, host, options, agent)


def _in_words(options: Mapping[str, Any]) -> str:
    """Returns in words what an actor reserves."""
    counts = {"CPUs": options.get("num_cpus"), "GPUs": options.get("num_gpus")}
    return " and ".join(f"{count:g} {name}" for name, count in counts.items() if count) or "room"
