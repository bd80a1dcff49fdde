"""Nodes that run before their client starts: which clients they accept, and their messages."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gristmill import Executor, StartError, on
from gristmill._nodes.addresses import unknown_names

import calls

COMMAND = [sys.executable, "-m", "gristmill._cli"]


def test_a_client_finds_nodes_that_listen(
    keys: tuple[str, str], start_node: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, node = keys
    addresses = [start_node(node, "--workers", "1", "--name", name) for name in ("one", "two")]
    with Executor(nodes=on.hosts(*addresses, key=client)) as executor:
        assert list(executor.map(abs, range(-100, 0))) == list(range(100, 0, -1))
    monkeypatch.setenv("GRISTMILL_CLIENT_KEY", client)
    with Executor(nodes=addresses) as executor:
        assert executor.submit(calls.add, 1, 2).result() == 3, "they serve one after the other"


def test_two_clients_share_a_node(keys: tuple[str, str], start_node: Callable[..., str]) -> None:
    client, node = keys
    address = start_node(node, "--workers", "2")
    one = Executor(1, nodes=on.hosts(address, key=client))
    other = Executor(1, nodes=on.hosts(address, key=client))
    with one, other:
        first, second = one.submit(calls.pid).result(), other.submit(calls.pid).result()
        assert first != second, "a worker belongs to one lease"
        third = Executor(1, nodes=on.hosts(address, key=client))
        waiting = third.submit(calls.nothing)
        while not any("0 of 2 are free" in text for _, text in third._node_failures()):
            assert not waiting.done()
        one.shutdown()
        assert waiting.result() is None, "it has what the other gave back"
        third.shutdown()


def test_a_client_with_another_key_is_not_let_in(
    keys: tuple[str, str], start_node: Callable[..., str], tmp_path: Path
) -> None:
    address = start_node(keys[1])
    (tmp_path / "other").mkdir()
    subprocess.run([*COMMAND, "key", tmp_path / "other"], capture_output=True, check=True)
    stranger = str(tmp_path / "other" / "gristmill-client.key")
    with (
        Executor(nodes=on.hosts(address, key=stranger)) as executor,
        pytest.raises(StartError, match="the two keys that were made together"),
    ):
        executor.submit(calls.nothing).result()


def test_a_key_that_others_can_read_is_refused(keys: tuple[str, str]) -> None:
    os.chmod(keys[0], 0o644)
    executor = Executor(nodes=on.hosts("127.0.0.1:1", key=keys[0]))
    with pytest.raises(OSError, match="chmod 600"):
        executor.submit(calls.nothing)
    node = subprocess.run(
        [*COMMAND, "node", "--listen", "127.0.0.1:0", "--key", keys[0]],
        capture_output=True,
        text=True,
    )
    assert node.returncode == 2
    assert "chmod 600" in node.stderr


@pytest.mark.parametrize("address", ["host", "host:", ":1", "host:port"])
def test_what_is_no_address_is_refused_at_once(address: str) -> None:
    with pytest.raises(ValueError, match="HOST:PORT"):
        on.hosts(address, key="key")


@pytest.mark.parametrize("beside", [[], ["127.0.0.1:9"]])
def test_a_host_whose_name_is_not_known_is_an_error_at_once(
    keys: tuple[str, str], beside: list[str]
) -> None:
    placement = on.hosts(*beside, "no-such-host.invalid:7700", key=keys[0])
    with Executor(nodes=placement) as executor:
        with pytest.raises(
            StartError,
            match=r"'no-such-host\.invalid:7700' cannot be resolved: \S",
        ):
            executor.submit(calls.nothing)
        with pytest.raises(StartError, match="no-such-host"):
            executor.submit(calls.nothing).result()


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1:9", "[::1]:9", "localhost:9", "b\N{LATIN SMALL LETTER U WITH DIAERESIS}cher..de:9"],
)
def test_names_are_looked_up_as_they_are_dialled(address: str) -> None:
    is_name = address.startswith("b")
    assert bool(unknown_names([address])) == is_name


def test_shutdown_ends_where_no_agent_listens(keys: tuple[str, str]) -> None:
    executor = Executor(nodes=on.hosts("127.0.0.1:9", key=keys[0]))
    future = executor.submit(calls.nothing)
    executor.shutdown(cancel_futures=True)
    assert future.cancelled()


def test_without_a_key_it_says_where_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRISTMILL_CLIENT_KEY", raising=False)
    with pytest.raises(ValueError, match="gristmill key"):
        Executor(nodes=["host:1"])
