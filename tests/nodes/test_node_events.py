"""Log messages about nodes."""

from __future__ import annotations

import dataclasses
import logging
import queue
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gristmill import Executor, Node, on
from gristmill._nodes.local import LocalNodes
from gristmill._nodes.node_events import NodeEvents, is_awaited
from gristmill._nodes.placement import Placement

import calls


def node(name: str, is_connected: bool = True, is_distrusted: bool = False) -> Node:
    numbers = {field.name: 0 for field in dataclasses.fields(Node)}
    known = {"name": name, "labels": {}, "granted_workers": 4}
    state = {"connected": is_connected, "distrusted": is_distrusted}
    return Node(**(numbers | known | state))  # type: ignore[arg-type]


def test_a_node_that_joins_and_one_that_leaves_are_no_warnings() -> None:
    events = NodeEvents()
    assert list(events.of_nodes([node("n1")])) == [
        (logging.INFO, "node n1 has joined with 4 workers")
    ]
    assert list(events.of_nodes([node("n1")])) == []
    ended = [("n1", "the node's time is over", True)]
    assert list(events.of_departures(ended)) == [
        (logging.INFO, "node n1 has returned its lease: the node's time is over")
    ]
    assert len(list(events.of_nodes([node("n1")]))) == 1, "it may come again"


def test_a_node_that_was_lost_is_a_warning_that_comes_once() -> None:
    events = NodeEvents()
    list(events.of_nodes([node("n1")]))
    lost = [("n1", "no message came from it for 2 s", False)]
    assert list(events.of_departures(lost)) == [
        (logging.WARNING, "node n1 was lost: no message came from it for 2 s")
    ]
    for now in (0.0, 100.0):
        assert list(events.of_failures([("n1", "no message came from it for 2 s")], now)) == []
    for now in (200.0, 211.0):
        said = list(events.of_failures([("n1", "it has another version")], now))
    assert said == [
        (logging.WARNING, "n1 does not join and is tried again: it has another version")
    ]


def test_what_is_remembered_of_departed_nodes_is_bounded() -> None:
    events = NodeEvents()
    for number in range(3000):
        name = f"n{number}"
        assert len(list(events.of_nodes([node(name)]))) == 1
        if number % 2:  # the other departures are not told
            list(events.of_departures([(name, "lost", False)]))
    assert len(events._known) <= 1
    assert len(events._gone) == 1000
    assert "n2999" in events._gone


def test_a_broken_connection_is_said_when_it_lasts() -> None:
    events = NodeEvents()
    list(events.of_nodes([node("n1")]))
    assert list(events.of_nodes([node("n1", is_connected=False)])) == []
    assert [level for level, _ in events.of_nodes([node("n1", is_connected=False)])] == [
        logging.WARNING
    ]
    assert list(events.of_nodes([node("n1", is_connected=False)])) == []
    assert list(events.of_nodes([node("n1")])) == [(logging.INFO, "node n1 is connected again")]


def test_lost_trust_is_said_and_that_it_is_back() -> None:
    events = NodeEvents()
    list(events.of_nodes([node("n1")]))
    (said,) = events.of_nodes([node("n1", is_distrusted=True)])
    assert said == (
        logging.WARNING,
        "node n1 gets no tasks for a while, because its workers die repeatedly",
    )
    (said,) = events.of_nodes([node("n1")])
    assert said == (logging.INFO, "node n1 gets tasks again")


def test_nodes_of_one_name_are_told_of_as_one() -> None:
    events = NodeEvents()
    both = [node("n1"), node("n1", is_distrusted=True)]
    assert len(list(events.of_nodes(both))) == 2, "it joined, and is not trusted"
    assert list(events.of_nodes(both)) == []


def test_a_trouble_that_passes_soon_is_not_said() -> None:
    events = NodeEvents()
    for now, failures in enumerate([["refused"], [], ["refused"], ["refused"]]):
        assert list(events.of_failures([("n1:7", text) for text in failures], 6.0 * now)) == []
    assert len(list(events.of_failures([("n1:7", "refused, again")], 30.0))) == 1


@pytest.fixture
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gristmill._nodes.node_events._LOOK_S", 0.01)
    monkeypatch.setattr("gristmill._nodes.node_events._FAILURE_S", 0.0)


class Told(logging.Handler):
    """A log handler that waits for messages about nodes."""

    def __init__(self) -> None:
        super().__init__()
        self._coming: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._coming.put(record.getMessage())

    def wait_for(self, text: str, count: int = 1) -> None:
        """Returns once this many lines have contained ``text``."""
        while sum(text in line for line in self._texts) < count:
            self._texts.append(self._coming.get())


@pytest.fixture
def told() -> Iterator[Told]:
    told, logger = Told(), logging.getLogger("gristmill.nodes")
    logger.addHandler(told)
    yield told
    logger.removeHandler(told)


@pytest.mark.usefixtures("_soon")
def test_the_log_has_what_became_of_a_node(
    make_nodes: Callable[..., tuple[Executor, LocalNodes]],
    caplog: pytest.LogCaptureFixture,
    told: Told,
) -> None:
    caplog.set_level(logging.INFO, "gristmill.nodes")
    executor, placement = make_nodes(1, 1)
    executor.submit(calls.nothing).result()
    told.wait_for("node local0 has joined with 1 workers")
    placement.agents[0].kill()
    told.wait_for("node local0 was lost: ")
    executor.submit(calls.nothing).result()
    told.wait_for("node local0 has joined with 1 workers", 2)


def test_who_only_knocks_at_an_open_door_is_no_news() -> None:
    listening = on.local(1)
    assert is_awaited(listening, "n1")
    assert not is_awaited(listening, "10.0.0.1:40100"), "agents try all addresses of a program so"
    hosts = on.hosts("n1:7700", key="key")
    assert is_awaited(hosts, "n1:7700")
    assert is_awaited(hosts, "10.0.0.1:7700")


@pytest.mark.usefixtures("_soon")
def test_an_address_that_is_not_reached_is_said_and_tried_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from gristmill import _native

    key = str(tmp_path / "client")
    _native.Fleet().write(key, str(tmp_path / "node"))
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # no process listens: connections are refused
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        placement: Placement = on.hosts(address, key=key)
        executor = Executor(nodes=placement)
        waiting = executor.submit(calls.nothing)
        while not caplog.messages:
            assert not waiting.done()
        said = caplog.messages[0]
        assert said.startswith(f"{address} does not join and is tried again: ")
        assert "refused" in said
        executor.shutdown(cancel_futures=True)
