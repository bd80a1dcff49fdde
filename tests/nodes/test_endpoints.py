"""Forms of addresses, the addresses that this machine has, and the search for the one that answers."""

from __future__ import annotations

import argparse
import socket
import struct
from collections.abc import Callable
from typing import Any

import pytest

from gristmill import on
from gristmill._nodes import addresses, endpoint, interfaces, probe
from gristmill._nodes.command import AgentCommand, literal, name_of
from gristmill._nodes.network import Network
from gristmill._nodes.node_events import is_awaited


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("n1:7700", "n1"),
        ("n1.example.org:7700", "n1.example.org"),
        ("10.0.0.1:7700", "10.0.0.1"),
        ("[fd00::1]:7700", "fd00::1"),
        ("[fe80::1%eth0]:7700", "fe80::1%eth0"),
        ("[::ffff:10.0.0.1]:7700", "::ffff:10.0.0.1"),
    ],
)
def test_addresses_have_one_of_these_forms(text: str, host: str) -> None:
    assert endpoint.split(text) == (host, 7700)
    assert endpoint.joined(host, 7700) == text
    assert endpoint.argument(text) == text
    assert Network(address=host).addresses("[::]:7700") == [text]
    assert on.hosts(text, key="key").dial == [text]


WRONG = [
    "n1",
    "n1:",
    ":7700",
    "n1:0",
    "n1:65536",
    "n1:+1",
    "n 1:7700",
    "10.0.0.256:7700",
    "10.0.1:7700",
    "[10.0.0.1]:7700",
    "[n1]:7700",
    "[fd00::1]",
    "[fd00::1%]:7700",
    "[fd00:::1]:7700",
    "tcp://n1:7700",
]


@pytest.mark.parametrize("text", WRONG)
def test_another_form_is_an_error_that_shows_the_right_ones(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not HOST:PORT, .* or \[fd00::1\]:7700"):
        on.hosts(text, key="key")
    with pytest.raises(argparse.ArgumentTypeError, match="is not HOST:PORT"):
        endpoint.argument(text)


@pytest.mark.parametrize("text", ["::1:7700", "fe80::1%eth0:7700", "fd00::1", "::1:99999"])
def test_an_address_of_ipv6_without_brackets_is_not_guessed_at(text: str) -> None:
    with pytest.raises(ValueError, match="an IPv6 address needs brackets before the port"):
        on.hosts(text, key="key")


def test_only_a_listening_address_may_have_any_port() -> None:
    assert endpoint.listening_argument("[::]:0") == "[::]:0"
    with pytest.raises(argparse.ArgumentTypeError):
        endpoint.argument("[::]:0")


@pytest.mark.parametrize(
    "address", ["", "n1:7700", "10.0.0.1:7700", "[fd00::1]:7700", "a b", "1.2"]
)
def test_the_address_of_a_network_is_a_host(address: str) -> None:
    with pytest.raises(ValueError, match=r"address: .* is not a host without a port.*port="):
        Network(address=address)


@pytest.mark.parametrize("interface", ["", "a-name-of-more-than-15"])
def test_the_interface_of_a_network_has_a_name(interface: str) -> None:
    with pytest.raises(ValueError, match="interface must be the name of one, such as eth0"):
        Network(interface=interface)


def test_a_scope_is_no_placeholder_of_a_name() -> None:
    assert name_of("%h.rank-%r", "n1", 3) == "n1.rank-3"
    assert name_of(literal("fe80::1%hsn0%%r"), "n1", 3) == "fe80::1%hsn0%%r"
    assert name_of("100%", "n1", 3) == "100%"


def test_a_node_may_be_named_as_an_address() -> None:
    listening = on.local(1)
    assert is_awaited(listening, "fd00::2")
    assert is_awaited(listening, "dask-tcp://[fd00::2]:4000")
    assert not is_awaited(listening, "[fd00::2]:4000"), "a stranger without a name"


def entry(
    host: str, index: int = 1, scope: int = 0, flags: int = 0, peer: str = "", label: str = ""
) -> bytes:
    """Returns the kernel's message about an address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    body = struct.pack("=BBBBI", family, 64, flags & 0xFF, scope, index)
    own = 2 if peer else (1 if family == socket.AF_INET6 else 2)
    for kind, value in ((1, peer), (own, host)):
        if value:
            packed = socket.inet_pton(family, value)
            body += struct.pack("=HH", 4 + len(packed), kind) + packed
    if label:  # it ends with a zero, and the next attribute begins at a multiple of four bytes
        text = label.encode() + b"\0"
        body += struct.pack("=HH", 4 + len(text), 3) + text + b"\0" * (-len(text) % 4)
    return body + struct.pack("=HHI", 8, 8, flags)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Returns a function that sets the addresses of this machine."""
    names = {1: "lo", 2: "eth0"}
    monkeypatch.setattr("socket.if_indextoname", names.__getitem__)
    monkeypatch.setattr("socket.if_nametoindex", {name: at for at, name in names.items()}.get)
    routes = {socket.AF_INET: "10.0.0.2", socket.AF_INET6: "fd00::3"}
    monkeypatch.setattr(addresses, "_source", routes.__getitem__)

    def sets(*entries: bytes) -> None:
        found = [one for one in map(interfaces._read, entries) if one is not None]
        monkeypatch.setattr(addresses, "interface_addresses", lambda: found)

    return sets


def test_all_addresses_of_an_interface_are_told_those_of_the_routes_first(
    machine: Callable[..., None],
) -> None:
    machine(
        entry("127.0.0.1", 1, 254),
        entry("10.0.0.1", 2),
        entry("10.0.0.2", 2),
        entry("192.168.0.1", 2, peer="192.168.0.9"),
        entry("::1", 1, 254),
        entry("fd00::1", 2, flags=0x20),  # deprecated
        entry("fd00::2", 2, flags=0x1),  # temporary
        entry("fd00::3", 2),
        entry("fd00::4", 2, flags=0x40),  # tentative
        entry("fd00::5", 2, flags=0x8),  # another machine has it
        entry("fe80::1", 2, 253),
    )
    usual = ["10.0.0.1:7", "192.168.0.1:7"]
    first, fleeting = ["10.0.0.2:7", "[fd00::3]:7"], ["[fd00::1]:7", "[fd00::2]:7"]
    there = addresses.reachable_at(7)
    assert there == [*first, *usual, *fleeting, "127.0.0.1:7", "[::1]:7"]
    of_interface = addresses.reachable_at(7, interface="eth0")
    assert of_interface == ["10.0.0.1:7", "10.0.0.2:7", "192.168.0.1:7", "[fd00::3]:7", *fleeting]


def test_a_machine_may_have_ipv6_alone(machine: Callable[..., None]) -> None:
    machine(entry("::1", 1, 254), entry("fd00::3", 2))
    assert addresses.reachable_at(7) == ["[fd00::3]:7", "[::1]:7"]
    assert addresses.reachable_at(7, interface="eth0") == ["[fd00::3]:7"]


def test_an_interface_without_an_address_for_others_is_an_error(
    machine: Callable[..., None],
) -> None:
    machine(entry("fe80::1", 2, 253))
    with pytest.raises(ValueError, match="valid on one link only: give one with address="):
        addresses.reachable_at(7, interface="eth0")


def test_an_alias_of_an_interface_has_addresses_of_its_own(machine: Callable[..., None]) -> None:
    machine(
        entry("10.0.0.1", 2, label="eth0"),
        entry("10.0.0.2", 2, label="eth0:1"),
        entry("fd00::3", 2),
    )
    assert addresses.reachable_at(7, interface="eth0:1") == ["10.0.0.2:7"]
    assert addresses.reachable_at(7, interface="eth0") == [
        "10.0.0.1:7",
        "10.0.0.2:7",
        "[fd00::3]:7",
    ]


@pytest.mark.parametrize(
    "answer",
    [None, b"", b"\0" * 16, struct.pack("=IHHII", 8, 20, 0, 1, 0), b"\x10", b"\xff" * 20],
    ids=["none", "empty", "without a size", "too small", "cut", "too large"],
)
def test_a_kernel_that_does_not_list_addresses_does_not_hold_the_start(
    answer: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, kernel = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    monkeypatch.setattr(interfaces, "_ANSWER_S", 0.01)
    with kernel, monkeypatch.context() as patched:
        if answer is not None:
            kernel.send(answer)
        patched.setattr("socket.socket", lambda *_: ours)
        with pytest.raises(OSError, match="timed out" if answer is None else "Bad message"):
            interfaces.interface_addresses()


def test_the_kernel_lists_the_loopback() -> None:
    hosts = [one.host for one in interfaces.interface_addresses() if one.is_loopback]
    assert addresses.loopback() in hosts
    assert addresses.all_addresses()[-1] in hosts
    with pytest.raises(ValueError, match="interface moon0 has no address"):
        addresses.reachable_at(7, interface="moon0")


def test_a_program_without_ipv4_listens_at_the_loopback_of_ipv6(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(addresses, "socket", NoIpv4())
    assert addresses.loopback() == "::1"
    assert Network(port=7700).listen_here == "[::1]:7700"


class NoIpv4:
    """The module ``socket`` on a machine without IPv4."""

    def __getattr__(self, name: str) -> Any:
        return getattr(socket, name)

    def socket(self, family: int, kind: int) -> Any:
        assert family == socket.AF_INET
        raise OSError(97, "Address family not supported by protocol")


def test_each_address_of_a_name_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # no process listens: connections are refused
        there, closed = listener.getsockname(), silent.getsockname()

        def look_up(host: str, port: int, **_: object) -> list[tuple[Any, ...]]:
            assert host == "door"
            kind = (socket.AF_INET, socket.SOCK_STREAM, 0, "")
            return [(*kind, closed), (*kind, there)]

        monkeypatch.setattr(socket, "getaddrinfo", look_up)
        assert probe.find_reachable(["door:7"], 10.0) == f"127.0.0.1:{there[1]}"


def test_a_search_in_vain_tells_how_each_address_has_failed() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        closed = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(ConnectionError) as failed:
            probe.find_reachable([closed, "no-such-host.invalid:1", "[fe80::1%moon0]:1"], 0.0)
    assert f"{closed}: Connection refused" in str(failed.value)
    assert "no-such-host.invalid:1: " in str(failed.value)
    assert "[fe80::1%moon0]:1: " in str(failed.value)


def test_addresses_of_ipv6_are_words_of_a_command() -> None:
    words = AgentCommand(["[fd00::1]:7", "n1:7"], python="python").arguments()
    assert words[words.index("--join") + 1] == "[fd00::1]:7"
