"""What a placement sees of the executor that it is for."""

from __future__ import annotations

import dataclasses
import logging
import weakref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gristmill._executor import Executor

_log = logging.getLogger("gristmill.nodes")


@dataclasses.dataclass(frozen=True)
class NodeView:
    """A node that there is a connection to."""

    name: str
    workers: int
    #: How many tasks it had when it gave its last sign of life, whether they ran or waited there.
    tasks: int


class ClientView:
    """An executor, seen from its placement, whose threads must not keep it alive.

    One that is gone ends its placement itself once its tasks are completed, and is seen again until then.
    """

    def __init__(self, executor: Executor) -> None:
        self.renew(executor)

    def renew(self, executor: Executor) -> None:
        """It is there again."""
        self._executor = weakref.ref(executor)
        self._departures = 0

    def is_over(self) -> bool:
        """Whether no node is needed any more: the executor takes no tasks and those that it had are completed, or no
        node can run any."""
        executor = self._executor()
        if executor is None:
            return False
        is_done = executor._is_shut_down and executor.stats().get("outstanding", 0) == 0
        return is_done or executor._is_broken()

    def tasks(self) -> int:
        """How many tasks could run now, and run: those that wait for others are not among them."""
        executor = self._executor()
        if executor is None:
            return 0
        counts = executor.stats()
        return counts.get("ready", 0) + counts.get("in_flight", 0)

    def tasks_on_nodes(self) -> int:
        """How many tasks nodes have, also those that nodes have not told of yet."""
        executor = self._executor()
        return 0 if executor is None else executor.stats().get("in_flight", 0)

    def nodes(self) -> list[NodeView]:
        """The nodes that there is a connection to."""
        executor = self._executor()
        if executor is None:
            return []
        return [
            NodeView(node["name"], node["workers"], node["waiting"] + node["running"])
            for node in executor._nodes()
            if node["connected"]
        ]

    def joined(self) -> set[str]:
        """The names of the nodes that are there, and of those that have gone for good since this was asked last."""
        executor = self._executor()
        if executor is None:
            return set()
        # In this order: a node that goes in between is among both.
        names = {node["name"] for node in executor._nodes()}
        self._departures, departures = executor._departures(self._departures)
        return names | {name for name, _, _ in departures}

    def give_up(self, reason: str) -> None:
        """Fails every task that is not final, and those to come, with ``StartError``: nothing will ever run them."""
        _log.error("there are no nodes, and there will be none: %s", reason)
        executor = self._executor()
        if executor is not None:
            executor._give_up_workers(f"no node runs tasks, and there will be none: {reason}")
