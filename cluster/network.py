"""The network of a cluster: a bridge, and one link a node, which can be cut, narrowed, delayed and counted."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from cluster.machine import Machine
from cluster.process import Process

_BRIDGE = "nodes"
#: A bridge that is down: it takes packets and drops them.
_VOID = "void"
_PREFIX_BITS = 24
_RELAY = str(Path(__file__).with_name("relay.py"))
#: What runs commands of ``ip`` that it reads.
BATCH = ("ip", "-batch", "-")


class Traffic(NamedTuple):
    """Bytes that a node has sent into its link and received from it since it was booted."""

    sent: int
    received: int


def command(*arguments: str, text: str | None = None) -> str:
    """Runs a command at this end; gives what it printed."""
    done = subprocess.run(arguments, input=text, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"{' '.join(arguments)}: {done.stderr.strip()}{text or ''}")
    return done.stdout


def ip(*lines: str) -> None:
    """Runs commands of ``ip`` at this end, in one process."""
    command(*BATCH, text="\n".join(lines))


def hardware_address(address: str) -> str:
    """One that stays when a machine is booted anew: its neighbours remember it."""
    return ":".join(["02", "00", *(f"{int(part):02x}" for part in address.split("."))])


def up(name: str, address: str | None = None, gateway: str | None = None) -> list[str]:
    """The commands of ``ip`` that bring an interface up, without the chatter of addresses that nobody asked for."""
    # Without an address it is a wire's end, which answers nobody, whatever it is joined to.
    arp = "on" if address else "off"
    lines = [f"link set dev {name} addrgenmode none", f"link set dev {name} arp {arp} up"]
    if address:
        lines.append(f"address add {address}/{_PREFIX_BITS} dev {name}")
        # Programs ask the route to some far address which of their own addresses to tell others.
        lines.append(f"route add default {f'via {gateway} ' if gateway else ''}dev {name}")
    return lines


@contextlib.contextmanager
def bridge(address: str) -> Iterator[None]:
    """What joins all nodes and this end, which has the address."""
    ip(f"link add name {_BRIDGE} address {hardware_address(address)} type bridge")
    try:
        ip(f"link add name {_VOID} type bridge", *up(_BRIDGE, address))
        yield
    finally:
        ip(f"link delete dev {_BRIDGE}", f"link delete dev {_VOID}")


def narrowing(name: str, rate: str | None) -> list[str]:
    """The command that lets no more than the rate out of an interface, or everything again."""
    bucket = ["tbf", "rate", rate, "burst", "256kb", "latency", "50ms"] if rate else ["noqueue"]
    return ["tc", "qdisc", "replace", "dev", name, "root", *bucket]


def narrow_bridge(rate: str) -> None:
    """Lets no more than the rate out of this end; what nodes send each other passes by."""
    command(*narrowing(_BRIDGE, rate))


class Link:
    """The outer end of a node's link, which has the node's name."""

    def __init__(self, name: str, login: Machine) -> None:
        self._name, self._login = name, login
        #: The interface in the bridge that the node's packets pass: its own, or the relay's.
        self._port = name
        self._relay: Process | None = None
        self._is_cut = False

    def plug(self, process: int, inside: str, address: str) -> None:
        """Makes the link; its inner end, named so, is in the network of that process."""
        peer = f"peer name {inside} address {hardware_address(address)} netns {process}"
        self._is_cut = False
        ip(f"link add name {self._name} type veth {peer}", self._joined(), *up(self._name))

    def unplug(self) -> None:
        """Takes the link away."""
        if self._relay:
            self._relay.end()
            self._relay = None
        for name in {self._name, self._port}:
            # The kernel does it too, some time after the node's last process has ended.
            with contextlib.suppress(OSError):
                ip(f"link delete dev {name}")
        self._port = self._name

    def cut(self) -> None:
        """Drops everything in both directions from now on, and lets neither end know."""
        self._is_cut = True
        ip(self._joined())

    def join(self) -> None:
        """Lets everything pass again."""
        self._is_cut = False
        ip(self._joined())

    def narrow(self, rate: str | None) -> None:
        """Lets no more than the rate through to the node; ``None`` for no limit."""
        command(*narrowing(self._name, rate))

    def delay(self, seconds: float, loss: float) -> None:
        """Holds each packet for that time, in each direction, and drops that part of them at random."""
        self.stop_delay()
        port, end = f"{self._name}-port", f"{self._name}-relay"
        ip(f"link add name {port} type veth peer name {end}", *up(port), *up(end))
        relay = [sys.executable, "-I", "-S", _RELAY, self._name, end, str(seconds), str(loss)]
        self._relay = self._login.start(relay, stdout=subprocess.PIPE)
        assert self._relay.stdout
        if not self._relay.stdout.readline():
            raise OSError(f"nothing carries what {self._name} sends")
        self._port = port
        # The relay sees what comes in before the bridge that drops it; this end's own network must not see it.
        ip(self._joined(), *(f"link set dev {name} master {_VOID}" for name in (self._name, end)))

    def stop_delay(self) -> None:
        """Takes the relay out of the link."""
        if self._relay:
            self._relay.end()
            self._relay = None
            ip(f"link delete dev {self._port}")
            self._port = self._name
            ip(self._joined())

    def traffic(self) -> Traffic:
        """Bytes that passed so far."""
        [link] = json.loads(command("ip", "-json", "-stats", "link", "show", "dev", self._name))
        return Traffic(link["stats64"]["rx"]["bytes"], link["stats64"]["tx"]["bytes"])

    def _joined(self) -> str:
        """The command of ``ip`` that puts the port where its packets pass, or where they do not."""
        return f"link set dev {self._port} master {_VOID if self._is_cut else _BRIDGE}"
