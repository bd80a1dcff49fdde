"""Programs and nodes that find each other by IPv6, and addresses of which the first one does not lead to the program."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from gristmill import Executor, on
from gristmill._nodes.command import IN_VAIN

import calls


def _has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


needs_ipv6 = pytest.mark.skipif(not _has_ipv6(), reason="this kernel has no IPv6 loopback")


@pytest.fixture
def stranger() -> Iterator[str]:
    """Yields the address of another program, which accepts connections and greets in a protocol of its own."""
    with socket.create_server(("127.0.0.1", 0)) as listener, contextlib.ExitStack() as stack:

        def serve() -> None:
            with contextlib.suppress(OSError):  # the listener is closed when the test ends
                while True:
                    connection, _ = listener.accept()
                    stack.enter_context(connection)
                    connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


@needs_ipv6
def test_a_program_finds_a_node_that_listens_at_all_addresses(
    keys: tuple[str, str], start_node: Callable[..., str]
) -> None:
    client, node = keys
    there = start_node(node, "--listen", "[::]:0", "--workers", "2")
    assert there.startswith("[::]:")
    port = there.rpartition(":")[2]
    for host in ("[::1]", "127.0.0.1", "[::ffff:127.0.0.1]"):
        with Executor(1, nodes=on.hosts(f"{host}:{port}", key=client)) as executor:
            assert executor.submit(calls.same, host).result() == host


@needs_ipv6
def test_nodes_join_a_program_by_ipv6(shell: list[str]) -> None:
    # Neither the colons of a host nor what looks like a placeholder in a scope changes the name of its node.
    host = "fe80::1%hsn0"
    network = on.Network(address="[::1]")
    with Executor(nodes=on.ssh([host], workers=1, shell=shell, network=network)) as executor:
        assert executor.submit(calls.same, 1).result() == 1
        assert [node.name for node in executor.nodes()] == [host]


def test_a_node_joins_though_another_program_answers_at_the_first_address(
    shell: list[str], stranger: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def addresses(port: int, *_: object) -> list[str]:
        return [stranger, f"127.0.0.1:{port}"]

    monkeypatch.setattr("gristmill._nodes.network.reachable_at", addresses)
    with Executor(nodes=on.ssh(["one"], workers=1, shell=shell)) as executor:
        assert executor.submit(calls.same, 1).result() == 1


def test_an_agent_tells_what_answered_at_each_address(stranger: str, keys: tuple[str, str]) -> None:
    join = [f"--join={address}" for address in ("127.0.0.1:1", stranger)]
    agent = [sys.executable, "-m", "gristmill._cli", "node", *join, "--key", keys[1]]
    told = [
        f"{stranger} sent bytes that are not of this protocol",
        "cannot reach 127.0.0.1:1: Connection refused",
    ]
    for patience in ("0.5", "20"):  # a slow start may use up a short one
        ended = subprocess.run([*agent, "--patience", patience], capture_output=True, text=True)
        assert ended.returncode == IN_VAIN
        if all(text in ended.stderr for text in told):
            return
    pytest.fail(ended.stderr)
