"""Agents as actors of a Ray cluster: one on each of its nodes, which come and go with these."""

from __future__ import annotations

import logging
import threading
import time

from gristmill._nodes.affinity import checked
from gristmill._nodes.groups import group_of
from gristmill._nodes.hosted import HostedAgent
from gristmill._nodes.pauses import Pauses
from gristmill._nodes.placement import Placement

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from gristmill._nodes.door import Door
    from gristmill._nodes.groups import Group

_log = logging.getLogger("gristmill.nodes")

#: Time between two looks at the cluster, seconds.
_LOOK_S = 1.0
#: How long Ray may take to start an actor before that is a trouble, seconds: an interpreter starts in a few.
_PENDING_S = 10.0


class Seat:
    """The actor on one node of the cluster. Ray restarts it; one that it gives up is made anew.

    :param ray: the module.
    :param host: what the node of the cluster is called.
    :param options: options of the actor.
    :param arguments: what the agent is made from.
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
        self._actor: Any = None
        self._answer: Any = None
        self._began_at = 0.0
        self._due_at: float | None = 0.0
        #: Whether Ray has not started the actor yet, and that was not said.
        self._is_pending = False
        self.trouble = ""

    @property
    def is_left_alone(self) -> bool:
        """Whether it has failed too often to be made again."""
        return self._actor is None and self._due_at is None

    def attend(self, now: float) -> None:
        """Makes the actor if there is none, else hears how its agent is."""
        if self._actor is None:
            if self._due_at is not None and now >= self._due_at:
                self._began_at, self._due_at = now, None
                self._actor = self._kind.remote(*self._arguments)
                self._answer = self._actor.condition.remote()
                self._is_pending = True
            return
        ready, _ = self._ray.wait([self._answer], timeout=0)
        if not ready:
            self._note_pending(now)
            return
        self._is_pending = False
        try:
            told = self._ray.get(self._answer)
        except self._ray.exceptions.ActorUnavailableError as error:
            self.trouble = str(error)  # it is being restarted
        except Exception as error:
            self._lose(str(error), now)
            return
        else:
            self._hear(*told)
            if self._actor is None:
                return
        self._answer = self._actor.condition.remote()

    def _hear(self, trouble: str, is_left_alone: bool) -> None:
        """What the actor says of its agent, which it starts again by itself until it leaves it alone."""
        if trouble and trouble != self.trouble:
            _log.info("%s has no agent: %s", self.host, trouble)
        self.trouble = trouble
        if is_left_alone:
            _log.warning("%s is left alone, its agent fails: %s", self.host, trouble)
            self.leave()

    def _note_pending(self, now: float) -> None:
        """Says once that Ray keeps an actor waiting: others may use what it is to reserve, for as long as they like."""
        if not self._is_pending or now - self._began_at < _PENDING_S:
            return
        self._is_pending = False
        self.trouble = (
            f"Ray has not started an agent there for {_PENDING_S:g} s: it waits for {self._needs} of Ray, which "
            "others use, or starts slowly"
        )
        _log.warning("%s: %s", self.host, self.trouble)

    def _lose(self, trouble: str, now: float) -> None:
        self._actor, self.trouble = None, trouble
        pause = self._pauses.after(now - self._began_at)
        self._due_at = None if pause is None else now + pause
        log = _log.warning if pause is None else _log.info
        often = " once too often" if pause is None else ""
        log("the actor of %s was lost%s: %s", self.host, often, trouble)

    def leave(self) -> None:
        """Ends the actor."""
        if self._actor is not None:
            self._ray.kill(self._actor, no_restart=True)
            self._actor = None


class RayNodes(Placement):
    """An actor with an agent on each node that has enough cores.

    :param ray: the module, with a connection to the cluster.
    :param is_ours: whether the connection is to be ended with the executor.
    :param nodes: on how many nodes; on all if not given.
    :param cpus: cores that each actor reserves; all of its node if not given.
    :param workers: workers of each; as many as cores if not given.
    :param options: further options of the actors.
    :param door: where nodes find this program.
    :param group: nodes that they are near to.
    :param cpu_affinity: binds workers to cores.
    """

    def __init__(
        self,
        ray: Any,
        is_ours: bool,
        nodes: int | None,
        cpus: float | None,
        workers: int | None,
        options: Mapping[str, Any],
        door: Door,
        group: Group = None,
        cpu_affinity: str = "none",
    ) -> None:
        self._ray = ray
        self._is_ours = is_ours
        self.nodes = nodes
        self.cpus = cpus
        self.workers = workers
        self.options = options
        self.door = door
        self.listen = door.listen
        self.group = group
        self.cpu_affinity = checked(cpu_affinity)
        self._agent: tuple[list[str], str] = ([], "")
        self._seats: dict[str, Seat] = {}
        self._ends = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, address: str | None, key: str) -> None:
        """Begins to look at the cluster."""
        self._agent = self.door.told(address), key
        self._seats.clear()
        self._ends.clear()
        self._thread = threading.Thread(target=self._run, name="gristmill-ray", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Ends the actors."""
        self._ends.set()
        if self._thread is not None:
            self._thread.join()

    def troubles(self) -> list[tuple[str, str]]:
        """Which nodes of the cluster have no agent, and why."""
        return [(seat.host, seat.trouble) for seat in list(self._seats.values()) if seat.trouble]

    def _run(self) -> None:
        while True:
            try:
                self._look()
            except Exception as error:
                # The head of the cluster may be away for a while.
                _log.warning("the Ray cluster cannot be looked at: %s", error)
            if self._seats and all(seat.is_left_alone for seat in self._seats.values()):
                self.client.give_up("; ".join(f"{name}: {text}" for name, text in self.troubles()))
                break
            if self._ends.wait(_LOOK_S) or self.client.is_over():
                break
        for seat in self._seats.values():
            seat.leave()
        if self._is_ours:
            self._ray.shutdown()

    def _look(self) -> None:
        """Takes the cluster's nodes as they are now, and looks after each."""
        found = {node["NodeID"]: node for node in self._ray.nodes() if self._is_usable(node)}
        for gone in self._seats.keys() - found.keys():
            self._seats.pop(gone).leave()
        for name, node in found.items():
            if name not in self._seats and len(self._seats) < (self.nodes or len(found)):
                self._seats[name] = self._make_seat(node)
        now = time.monotonic()
        for seat in self._seats.values():
            seat.attend(now)

    def _is_usable(self, node: Mapping[str, Any]) -> bool:
        return bool(node["Alive"]) and node["Resources"].get("CPU", 0) >= (self.cpus or 1)

    def _make_seat(self, node: Mapping[str, Any]) -> Seat:
        cpus = self.cpus or node["Resources"]["CPU"]
        strategies = self._ray.util.scheduling_strategies
        options = {
            "num_cpus": cpus,
            # Some versions of Ray hide GPUs from an actor that has reserved none, others let it use those of others.
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
        group = group_of(self.group, host)
        agent = (join, key, host, workers, group, None, self.cpu_affinity, cores)
        return Seat(self._ray, host, options, agent)


def _in_words(options: Mapping[str, Any]) -> str:
    """What an actor reserves."""
    counts = {"CPUs": options.get("num_cpus"), "GPUs": options.get("num_gpus")}
    return " and ".join(f"{count:g} {name}" for name, count in counts.items() if count) or "room"
