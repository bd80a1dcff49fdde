"""What becomes of an executor's nodes, in its log: who joined, left, was lost, or does not come.

A look a second is enough for people who read it, and costs nothing where tasks run. Nothing else rests on it.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
import weakref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from gristmill._executor import Executor
    from gristmill._nodes.placement import Placement

_log = logging.getLogger("gristmill.nodes")

#: Time between two looks, seconds.
_LOOK_S = 1.0
#: How long a node may not come before that is said, seconds: longer than one takes to start, or to be dialled again.
_TROUBLE_S = 10.0


@dataclasses.dataclass
class _Known:
    """What was said of a node last."""

    is_parted: bool = False
    has_said_so: bool = False
    is_distrusted: bool = False


class News:
    """Tells what has changed since the last look; a pure state machine.

    A change is a level of the log and a sentence.
    """

    def __init__(self) -> None:
        #: How many nodes had gone for good at the last look.
        self.departures = 0
        self._known: dict[str, _Known] = {}
        #: What kept somebody from coming: since when, and whether it was said.
        self._troubles: dict[str, tuple[float, bool]] = {}
        #: Why nodes went that have not come again.
        self._gone: dict[str, str] = {}

    def of_departures(
        self, departures: Sequence[tuple[str, str, bool]]
    ) -> Iterator[tuple[int, str]]:
        """Nodes that went for good: each with why, and whether it said so itself."""
        for name, text, has_ended in departures:
            self._known.pop(name, None)
            self._gone[name] = text
            if has_ended:
                yield logging.INFO, f"node {name} has given its lease back: {text}"
            else:
                yield logging.WARNING, f"node {name} was lost: {text}"

    def of_nodes(self, nodes: Sequence[dict[str, Any]]) -> Iterator[tuple[int, str]]:
        """Nodes as they are now; of several with one name, one."""
        for name, node in {node["name"]: node for node in nodes}.items():
            known = self._known.get(name)
            if known is None:
                known = self._known[name] = _Known()
                self._gone.pop(name, None)
                yield logging.INFO, f"node {name} has joined with {node['granted_workers']} workers"
            yield from _of_connection(known, node)
            if known.is_distrusted != node["distrusted"]:
                known.is_distrusted = node["distrusted"]
                yield _of_trust(known, name)

    def of_troubles(
        self, troubles: Sequence[tuple[str, str]], now: float
    ) -> Iterator[tuple[int, str]]:
        """What keeps nodes from coming, and addresses from being reached, if it does so for longer."""
        # Why a node was lost has been said, and is no news until it comes again.
        there = {whom: text for whom, text in troubles if self._gone.get(whom) != text}
        self._troubles = {whom: known for whom, known in self._troubles.items() if whom in there}
        for whom, text in there.items():
            since, is_said = self._troubles.setdefault(whom, (now, False))
            if not is_said and now - since >= _TROUBLE_S:
                self._troubles[whom] = since, True
                yield logging.WARNING, f"{whom} does not come, it is tried again: {text}"


def _of_connection(known: _Known, node: dict[str, Any]) -> Iterator[tuple[int, str]]:
    was_parted, known.is_parted = known.is_parted, not node["connected"]
    if not known.is_parted:
        if known.has_said_so:
            known.has_said_so = False
            yield logging.INFO, f"node {node['name']} is connected again"
    elif was_parted and not known.has_said_so:
        known.has_said_so = True
        yield logging.WARNING, f"node {node['name']} has had no connection for a second or longer"


def _of_trust(known: _Known, name: str) -> tuple[int, str]:
    if known.is_distrusted:
        return logging.WARNING, f"node {name} gets nothing for a while: workers keep dying there"
    return logging.INFO, f"node {name} gets tasks again"


def is_awaited(placement: Placement, whom: str) -> bool:
    """Whether somebody is to be there: at an open door, who has no name yet may be a stranger, or has only knocked."""
    is_nameless = whom.rpartition(":")[2].isdigit()
    return not is_nameless or placement.listen is None or whom in placement.dial


def report(executor: Executor) -> None:
    """Logs what becomes of its nodes, until it takes no tasks any more and has none."""
    thread = threading.Thread(
        target=_report, args=(weakref.ref(executor),), name="gristmill-news", daemon=True
    )
    thread.start()


def _report(reference: weakref.ref[Executor]) -> None:
    news = News()
    while _look(reference(), news):
        time.sleep(_LOOK_S)


def _look(executor: Executor | None, news: News) -> bool:
    """Takes one look; says whether there is to be another one."""
    if executor is None:
        return False
    # In this order: a node that goes after the first question is told of as gone next time.
    news.departures, departures = executor._departures(news.departures)
    for level, text in news.of_departures(departures):
        _log.log(level, "%s", text)
    for level, text in news.of_nodes(executor._nodes()):
        _log.log(level, "%s", text)
    placement = executor._placement
    assert placement is not None, "an executor with nodes has one"
    troubles = [one for one in executor._door_troubles() if is_awaited(placement, one[0])]
    for level, text in news.of_troubles(troubles, time.monotonic()):
        _log.log(level, "%s", text)
    return not executor._is_shut_down or executor.stats().get("outstanding", 0) > 0
