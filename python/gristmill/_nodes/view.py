"""The view of an executor that its placement has."""

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
    """A node with a connection."""

    name: str
    workers: int
    #: The number of tasks, running or waiting there, at its last heartbeat.
    tasks: int


class ClientView:
    """An executor as its placement sees it, by a weak reference: the placement's threads must not keep it alive.

    An executor that was garbage-collected ends its placement itself once its tasks are completed, and is seen again
    until then.
    """

    def __init__(self, executor: Executor) -> None:
        self.renew(executor)

    def renew(self, executor: Executor) -> None:
        """Attaches the view to the executor again."""
        self._executor = weakref.ref(executor)
        self._departures = 0
        #: The nodes that were connected when the executor began to shut down; ``None`` before.
        self._leaving: set[str] | None = None

    def is_over(self) -> bool:
        """Returns whether no node is needed any more.

        That is so if the executor takes no tasks and has completed all it had, or if no node can run any.
        """
        executor = self._executor()
        if executor is None:
            return False
        is_done = executor._is_shut_down and executor.stats().outstanding == 0
        return is_done or executor._is_broken()

    def tasks(self) -> int:
        """Returns the number of tasks that run or could run now, without those that wait for others."""
        executor = self._executor()
        if executor is None:
            return 0
        counts = executor.stats()
        return counts.ready + counts.in_flight

    def tasks_on_nodes(self) -> int:
        """Returns the number of tasks at nodes, including those that nodes have not reported yet."""
        executor = self._executor()
        return 0 if executor is None else executor.stats().in_flight

    def nodes(self) -> list[NodeView]:
        """Returns the nodes with a connection."""
        executor = self._executor()
        if executor is None:
            return []
        return [
            NodeView(node.name, node.workers, node.waiting + node.running)
            for node in executor.nodes()
            if node.connected
        ]

    def connected(self) -> set[str]:
        """Returns the names of the nodes with a connection."""
        return {node.name for node in self.nodes()}

    def has_node(self) -> bool:
        """Returns whether any node is connected."""
        return bool(self.nodes())

    def begin_end(self) -> None:
        """Records the nodes that are told that the executor ends, and so leave by themselves."""
        self._leaving = self.connected()

    def leaving(self) -> set[str] | None:
        """Returns the nodes that leave by themselves: those that were connected when the executor ended, and were not
        lost since. ``None`` if all do.
        """
        executor = self._executor()
        if executor is None or self._leaving is None:
            return None
        _, departures = executor._departures(0)
        return self._leaving - {gone for gone, _, has_ended in departures if not has_ended}

    def joined(self) -> set[str]:
        """Returns the names of the current nodes, and of those that have left since the last call."""
        executor = self._executor()
        if executor is None:
            return set()
        # The order matters: a node that leaves in between is in both sets.
        names = {node.name for node in executor.nodes()}
        self._departures, departures = executor._departures(self._departures)
        return names | {name for name, _, _ in departures}

    def give_up(self, reason: str) -> None:
        """Fails every task that is not final, and every future one, with ``StartError``: no node will ever run them."""
        _log.error("no node is connected, and no node will join: %s", reason)
        executor = self._executor()
        if executor is not None:
            executor._give_up_nodes(reason)
