"""Permanent failures of nodes: tasks fail with the reason instead of waiting, and the nodes are not asked again."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from gristmill import Executor, StartError, _native, on
from gristmill._nodes.local import LocalNodes
from gristmill._nodes.placement import Placement

import calls

MakeNodes = Callable[..., tuple[Executor, LocalNodes]]


class UncountedNodes(LocalNodes):
    """Nodes of an unknown maximum number."""

    def __init__(self, count: int, workers: int) -> None:
        super().__init__(count, workers)
        self.node_count = None


@pytest.mark.parametrize(("kind", "count"), [(LocalNodes, 1), (LocalNodes, 2), (UncountedNodes, 3)])
def test_an_initializer_that_raises_on_all_nodes_fails_every_task(
    make_nodes: MakeNodes, kind: type[LocalNodes], count: int
) -> None:
    executor, placement = make_nodes(count, 1, kind=kind, initializer=calls.raise_at_start)
    futures = [executor.submit(calls.nothing) for _ in range(3)]
    for future in futures:
        with pytest.raises(StartError, match=r"local\d: [\s\S]*no module of that name"):
            future.result()
    with pytest.raises(StartError, match="no module of that name"):
        executor.submit(calls.nothing)
    for agent in placement.agents:
        agent.wait()  # the executor does not need them, so they end


@pytest.mark.slow
def test_an_initializer_that_ends_the_process_on_nodes(make_nodes: MakeNodes) -> None:
    executor, _ = make_nodes(1, 1, initializer=calls.exit_at_start)
    with pytest.raises(StartError, match=r"code 7[\s\S]*giving up"):
        executor.submit(calls.nothing).result()


def test_a_module_that_no_node_can_preload(make_nodes: MakeNodes) -> None:
    executor, _ = make_nodes(2, 1, preload=["a_module_that_no_package_has"])
    with pytest.raises(StartError, match="a_module_that_no_package_has"):
        executor.submit(calls.nothing).result()


def test_an_initializer_that_is_too_large_for_nodes_fails_every_task_at_once(
    make_nodes: MakeNodes,
) -> None:
    executor, _ = make_nodes(1, 1, initializer=calls.same, initargs=(bytes(17 << 20),))
    with pytest.raises(StartError, match="limit is 15728640: the environment") as failed:
        executor.submit(calls.nothing)
    assert failed.value.code == "environment_too_large"
    assert "from files" in str(failed.value)


def test_one_node_that_fails_leaves_the_work_to_the_others(
    make_nodes: MakeNodes, tmp_path: object, caplog: pytest.LogCaptureFixture
) -> None:
    path = f"{tmp_path}/first"
    with caplog.at_level(logging.WARNING, "gristmill.nodes"):
        executor, placement = make_nodes(2, 1, initializer=calls.raise_once, initargs=(path,))
        assert list(executor.map(calls.same, range(100))) == list(range(100))
        while not (ended := [text for _, text in placement.failures() if text]):
            executor.submit(calls.nothing).result()
    assert len(ended) == 1
    assert ended[0].startswith("ended with exit status 77: gristmill node")
    (record,) = [one for one in caplog.records if one.name == "gristmill.nodes"]
    assert "gets no tasks from this program" in record.getMessage()
    assert "only the first one fails" in record.getMessage()
    assert executor.submit(calls.same, 1).result() == 1


class ByHand(Placement):
    """A placement that accepts agents which the test starts."""

    listen = "127.0.0.1:0"

    def start(self, address: str | None, key: str) -> None:
        self.address = str(address)

    def end(self) -> None:
        """Does nothing: the test that started agents ends them."""


@pytest.fixture
def by_hand() -> Iterator[ByHand]:
    placement = ByHand()
    with Executor(nodes=placement) as executor:
        future = executor.submit(calls.nothing)
        yield placement
        assert not future.done(), "another node may come"
        executor.shutdown(cancel_futures=True)


def test_an_agent_with_another_key_ends_at_once_and_says_why(by_hand: ByHand) -> None:
    command = [sys.executable, "-m", "gristmill._cli", "node", "--join", by_hand.address]
    for _ in range(3):
        ended = subprocess.run(
            [*command, "--key=-", "--name=stranger"],
            input=f"{_native.Fleet().node_key()}\n",
            capture_output=True,
            text=True,
        )
        assert ended.returncode == 77
        assert "gristmill node stranger: gave up:" in ended.stderr
        assert "the two keys that were made together" in ended.stderr


def test_a_standing_node_where_no_worker_starts_serves_the_next_client(
    keys: tuple[str, str], start_node: Callable[..., str]
) -> None:
    client, node = keys
    address = start_node(node, "--workers", "1")
    with (
        Executor(nodes=on.hosts(address, key=client), initializer=calls.raise_at_start) as executor,
        pytest.raises(StartError, match="no module of that name"),
    ):
        executor.submit(calls.nothing).result()
    with Executor(nodes=on.hosts(address, key=client)) as executor:
        assert executor.submit(calls.same, 1).result() == 1
