"""Settings of a placement for its nodes: the program's port, the tunnel to it, and the groups of nodes."""

from __future__ import annotations

import random
import shlex
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from gristmill import Executor, on
from gristmill._nodes.placement import Placement

import calls
from processes import Processes
from stage import Gate

#: A program that is called as ``ssh`` is and runs everything on this machine. For ``-R`` it runs a relay as long as the
#: command runs.
_SHELL = """#!/bin/sh
exec {python} {program} "$@"
"""
_PROGRAM = """
import subprocess, sys
sys.path.insert(0, {tests!r})
from proxy import Relay
words = sys.argv[1:]
options, (host, command) = words[:words.index("--")], words[words.index("--") + 1:]
print(" ".join(words), file=open({log!r}, "a"))
if "-R" in options:
    there, port, here, target = options[options.index("-R") + 1].split(":")
    assert there == here == "127.0.0.1"
    Relay(int(target), int(port))
sys.exit(subprocess.call(["sh", "-c", command]))
"""


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Puts such a program in the place of ``ssh``; returns the file that it writes its arguments to."""
    log = tmp_path / "log"
    program = tmp_path / "ssh.py"
    program.write_text(_PROGRAM.format(tests=str(Path(__file__).parent), log=str(log)))
    python = shlex.quote(sys.executable)
    (tmp_path / "ssh").write_text(_SHELL.format(python=python, program=shlex.quote(str(program))))
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return log


@pytest.fixture
def port() -> int:
    """Returns a free port, below those that the kernel gives to programs that ask for any port."""
    first_fleeting = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for number in random.sample(range(first_fleeting // 2, first_fleeting), 100):
        with suppress(OSError), socket.create_server(("", number)):
            return number
    pytest.fail(f"no port below {first_fleeting} is free")


def test_hosts_reach_the_program_through_ssh(log: Path, port: int) -> None:
    with Executor(
        nodes=on.ssh(["one"], workers=1, reverse=True, network=on.Network(port=port))
    ) as executor:
        assert executor.submit(calls.add, 1, 2).result() == 3
    words = log.read_text().split()
    there = words[words.index("-R") + 1].removesuffix(f":127.0.0.1:{port}")
    assert words[words.index("--join") + 1] == there
    assert words.count("--join") == 1, "no address of this machine is told"
    assert "ExitOnForwardFailure=yes" in words


@pytest.mark.slow
def test_each_try_forwards_another_port(log: Path, gate: Gate) -> None:
    placement: Any = on.ssh(["one"], workers=1, reverse=True)
    with Executor(nodes=placement) as executor:
        held = executor.options(loss_retries=1).submit(calls.enter, gate.path)
        gate.wait_entered()
        placement.supervisor.running()[0].kill()
        gate.wait_entered()
        gate.open(2)
        assert held.result() is None
    words = log.read_text().split()
    ports = {words[number + 1] for number, word in enumerate(words) if word == "-R"}
    assert len(ports) > 1


def test_with_a_forward_no_address_is_told() -> None:
    with pytest.raises(ValueError, match="leave address and interface out"):
        on.ssh(["one"], reverse=True, network=on.Network(address="10.0.0.1"))


def test_agents_on_this_machine_are_told_no_address() -> None:
    with pytest.raises(ValueError, match="leave address and interface out"):
        on.local(1, network=on.Network(interface="lo"))


JOINED: list[Callable[..., Placement]] = [
    lambda **options: on.local(1, **options),
    lambda **options: on.ssh(["n1"], **options),
    lambda **options: on.mpi(launcher=["mpiexec"], **options),
    lambda **options: on.dask(Client(), **options),
    lambda **options: on.provider(Processes(), **options),
]


class Client:
    """A stand-in for Dask's client."""

    def register_plugin(self, plugin: object, name: str) -> None: ...


@pytest.mark.parametrize("make", JOINED)
def test_the_port_can_be_chosen(make: Callable[..., Placement]) -> None:
    listen = make(network=on.Network(port=7700)).listen
    assert listen is not None
    assert listen.endswith(":7700")
    with pytest.raises(TypeError, match=r"network must be a gristmill\.on\.Network, not 7700"):
        make(network=7700)


def test_nodes_join_at_the_port_that_was_chosen(port: int) -> None:
    with Executor(nodes=on.local(1, network=on.Network(port=port))) as executor:
        assert executor.submit(calls.add, 1, 2).result() == 3
        (peer,) = {node.name for node in executor.nodes()}
        assert peer == "local0"
        with pytest.raises(OSError, match="in use"):
            socket.create_server(("127.0.0.1", port), reuse_port=False)


def groups(executor: Executor, count: int) -> dict[str, str | None]:
    """Waits for this many nodes; returns the group of each."""
    while len(nodes := executor.nodes()) < count:
        executor.submit(calls.nothing).result()
    return {node.name: node.labels.get("group") for node in nodes}


def test_a_function_puts_nodes_into_groups() -> None:
    by_name = {"local0": "left", "local1": "right", "local2": None}
    network = on.Network(group=by_name.get)
    with Executor(nodes=on.local(3, network=network)) as executor:
        assert groups(executor, 3) == by_name


def test_a_name_puts_all_hosts_into_one_group(log: Path) -> None:
    network = on.Network(group="rack")
    with Executor(nodes=on.ssh(["one", "me@two"], workers=1, network=network)) as executor:
        assert groups(executor, 2) == {"one": "rack", "two": "rack"}


def test_a_group_of_unknown_hosts_is_a_name() -> None:
    with pytest.raises(TypeError, match="group must be a name for this placement"):
        on.mpi(launcher=["mpiexec"], network=on.Network(group=str.upper))


def test_a_group_is_a_name_on_one_line(log: Path) -> None:
    executor = Executor(nodes=on.ssh(["one"], network=on.Network(group="a\nb")))
    with pytest.raises(ValueError, match="the group of one must be a name on one line"):
        executor.submit(calls.nothing)
