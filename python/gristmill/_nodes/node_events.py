"""Log messages about an executor's nodes: which node joined, left, was lost, or fails to come.

One poll a second is enough for people who read the log, and costs nothing where tasks run. No other part depends on it.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
import weakref

from gristmill._nodes.endpoint import is_numeric

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gristmill._counts import Node
    from gristmill._executor import Executor
    from gristmill._nodes.placement import Placement

_log = logging.getLogger("gristmill.nodes")

#: The time between two polls, seconds.
_LOOK_S = 1.0
#: Nodes that have left and are remembered, as many as the failures that the client remembers.
_GONE_MAX = 1000
#: The time after which a missing node is logged, seconds: longer than a node takes to start or to be dialled again.
_FAILURE_S = 10.0


@dataclasses.dataclass
class _Known:
    """The last logged state of a node."""

    is_parted: bool = False
    has_said_so: bool = False
    is_distrusted: bool = False


class NodeEvents:
    """The changes since the last poll, as a pure state machine.

    A change is a log level and a sentence.
    """

    def __init__(self) -> None:
        #: The number of nodes that had left at the last poll.
        self.departures = 0
        self._known: dict[str, _Known] = {}
        #: For each failure of a node to come: when it began, and whether it was logged.
        self._failures: dict[str, tuple[float, bool]] = {}
        #: For each node that left and has not come again: the reason.
        self._gone: dict[str, str] = {}

    def of_departures(
        self, departures: Sequence[tuple[str, str, bool]]
    ) -> Iterator[tuple[int, str]]:
        """Yields the log messages for nodes that left: each has a reason, and whether the node ended its lease."""
        for name, text, has_ended in departures:
            self._known.pop(name, None)
            self._gone.pop(name, None)
            self._gone[name] = text
            if len(self._gone) > _GONE_MAX:
                del self._gone[next(iter(self._gone))]
            if has_ended:
                yield logging.INFO, f"node {name} has returned its lease: {text}"
            else:
                yield logging.WARNING, f"node {name} was lost: {text}"

    def of_nodes(self, nodes: Sequence[Node]) -> Iterator[tuple[int, str]]:
        """Yields the log messages for the current nodes. Of several nodes with one name, it reports one."""
        there = {node.name: node for node in nodes}
        # A node that is not there has left, even if its departure was not reported.
        self._known = {name: known for name, known in self._known.items() if name in there}
        for name, node in there.items():
            known = self._known.get(name)
            if known is None:
                known = self._known[name] = _Known()
                self._gone.pop(name, None)
                yield logging.INFO, f"node {name} has joined with {node.granted_workers} workers"
            yield from _of_connection(known, node)
            if known.is_distrusted != node.distrusted:
                known.is_distrusted = node.distrusted
                yield _of_trust(known, name)

    def of_failures(
        self, failures: Sequence[tuple[str, str]], now: float
    ) -> Iterator[tuple[int, str]]:
        """Yields warnings about failures that have kept nodes or addresses unreachable for ``_FAILURE_S``."""
        # The loss of a node was logged already; its reason is not logged again until the node has rejoined.
        there = {whom: text for whom, text in failures if self._gone.get(whom) != text}
        self._failures = {whom: known for whom, known in self._failures.items() if whom in there}
        for whom, text in there.items():
            since, is_said = self._failures.setdefault(whom, (now, False))
            if not is_said and now - since >= _FAILURE_S:
                self._failures[whom] = since, True
                yield logging.WARNING, f"{whom} does not join and is tried again: {text}"


def _of_connection(known: _Known, node: Node) -> Iterator[tuple[int, str]]:
    was_parted, known.is_parted = known.is_parted, not node.connected
    if not known.is_parted:
        if known.has_said_so:
            known.has_said_so = False
            yield logging.INFO, f"node {node.name} is connected again"
    elif was_parted and not known.has_said_so:
        known.has_said_so = True
        yield logging.WARNING, f"node {node.name} has had no connection for at least a second"


def _of_trust(known: _Known, name: str) -> tuple[int, str]:
    if known.is_distrusted:
        return (
            logging.WARNING,
            f"node {name} gets no tasks for a while, because its workers die repeatedly",
        )
    return logging.INFO, f"node {name} gets tasks again"


def is_awaited(placement: Placement, whom: str) -> bool:
    """Returns whether the client expects this peer. An unnamed peer at a listening port may be any stranger."""
    return not is_numeric(whom) or placement.listen is None or whom in placement.dial


def report(executor: Executor) -> None:
    """Logs the changes of the executor's nodes until it is shut down and has no outstanding tasks."""
    thread = threading.Thread(
        target=_report, args=(weakref.ref(executor),), name="gristmill-events", daemon=True
    )
    thread.start()


def _report(reference: weakref.ref[Executor]) -> None:
    events = NodeEvents()
    while _look(reference(), events):
        time.sleep(_LOOK_S)


def _look(executor: Executor | None, events: NodeEvents) -> bool:
    """Polls once. Returns whether to poll again."""
    if executor is None:
        return False
    # The order matters: a node that leaves after the first call is reported at the next poll.
    events.departures, departures = executor._departures(events.departures)
    for level, text in events.of_departures(departures):
        _log.log(level, "%s", text)
    for level, text in events.of_nodes(executor.nodes()):
        _log.log(level, "%s", text)
    placement = executor._placement
    assert placement is not None, "an executor with nodes has one"
    failures = [one for one in executor._connection_failures() if is_awaited(placement, one[0])]
    for level, text in events.of_failures(failures, time.monotonic()):
        _log.log(level, "%s", text)
    return not executor._is_shut_down or executor.stats().outstanding > 0
