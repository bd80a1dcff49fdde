"""The network of a cluster: a bridge, and one link for each node, which can be cut, narrowed, delayed and counted."""

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
#: The command that runs the commands of ``ip`` on its standard input.
BATCH = ("ip", "-batch", "-")


class Traffic(NamedTuple):
    """Bytes that a node has sent into its link and received from it since it was booted."""

    sent: int
    received: int


def command(*arguments: str, text: str | None = None) -> str:
    """Runs a command at this end and returns what it printed."""
    done = subprocess.run(arguments, input=text, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"{' '.join(arguments)}: {done.stderr.strip()}{text or ''}")
    return done.stdout


def ip(*lines: str) -> None:
    """Runs commands of ``ip`` at this end, in one process."""
    command(*BATCH, text="\n".join(lines))


def hardware_address(address: str) -> str:
    """Returns a hardware address that stays when a machine is booted anew, because its neighbours remember it."""
    return ":".join(["02", "00", *(f"{int(part):02x}" for part in address.split("."))])


def up(name: str, address: str | None = None, gateway: str | None = None) -> list[str]:
    """Returns the commands of ``ip`` that bring an interface up, without the traffic of automatic addresses."""
    # An interface without an address is the end of a wire. It answers no ARP request, whatever it is joined to.
    arp = "on" if address else "off"
    lines = [f"link set dev {name} addrgenmode none", f"link set dev {name} arp {arp} up"]
    if address:
        lines.append(f"address add {address}/{_PREFIX_BITS} dev {name}")
        # Programs ask for the route to some far address to learn which of their own addresses to tell others.
        lines.append(f"route add default {f'via {gateway} ' if gateway else ''}dev {name}")
    return lines


@contextlib.contextmanager
def bridge(address: str) -> Iterator[None]:
    """Makes the bridge that joins all nodes and this end, which has the address."""
    ip(f"link add name {_BRIDGE} address {hardware_address(address)} type bridge")
    try:
        ip(f"link add name {_VOID} type bridge", *up(_BRIDGE, address))
        yield
    finally:
        ip(f"link delete dev {_BRIDGE}", f"link delete dev {_VOID}")


def narrowing(name: str, rate: str | None) -> list[str]:
    """Returns the command that limits the outgoing rate of an interface, or removes the limit."""
    bucket = ["tbf", "rate", rate, "burst", "256kb", "latency", "50ms"] if rate else ["noqueue"]
    return ["tc", "qdisc", "replace", "dev", name, "root", *bucket]


def narrow_bridge(rate: str) -> None:
    """Limits the outgoing rate of this end. Traffic between nodes is not limited."""
    command(*narrowing(_BRIDGE, rate))


class Link:
    """The outer end of a node's link, which has the node's name."""

    def __init__(self, name: str, login: Machine) -> None:
        self._name, self._login = name, login
        #: The interface in the bridge that the node's packets pass: the link's own, or the relay's.
        self._port = name
        self._relay: Process | None = None
        self._is_cut = False

    def plug(self, process: int, inside: str, address: str) -> None:
        """Makes the link. Its inner end, named ``inside``, is in the network of ``process``."""
        peer = f"peer name {inside} address {hardware_address(address)} netns {process}"
        self._is_cut = False
        ip(f"link add name {self._name} type veth {peer}", self._joined(), *up(self._name))

    def unplug(self) -> None:
        """Removes the link."""
        if self._relay:
            self._relay.end()
            self._relay = None
        for name in {self._name, self._port}:
            # The kernel removes it too, some time after the node's last process has ended.
            with contextlib.suppress(OSError):
                ip(f"link delete dev {name}")
        self._port = self._name

    def cut(self) -> None:
        """Drops everything in both directions from now on, without a notice to either end."""
        self._is_cut = True
        ip(self._joined())

    def join(self) -> None:
        """Lets everything pass again."""
        self._is_cut = False
        ip(self._joined())

    def narrow(self, rate: str | None) -> None:
        """Limits the rate of the link towards the node; ``None`` removes the limit."""
        command(*narrowing(self._name, rate))

    def delay(self, seconds: float, loss: float) -> None:
        """Holds each packet for ``seconds``, in each direction, and drops the part ``loss`` of them at random."""
        self.stop_delay()
        port, end = f"{self._name}-port", f"{self._name}-relay"
        ip(f"link add name {port} type veth peer name {end}", *up(port), *up(end))
        relay = [sys.executable, "-I", "-S", _RELAY, self._name, end, str(seconds), str(loss)]
        self._relay = self._login.start(relay, stdout=subprocess.PIPE)
        assert self._relay.stdout
        if not self._relay.stdout.readline():
            raise OSError(f"nothing carries what {self._name} sends")
        self._port = port
        # The relay sees incoming packets before the bridge that drops them. This end's own network must not see them.
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
        """Returns the bytes that have passed so far."""
        [link] = json.loads(command("ip", "-json", "-stats", "link", "show", "dev", self._name))
        return Traffic(link["stats64"]["rx"]["bytes"], link["stats64"]["tx"]["bytes"])

    def _joined(self) -> str:
        """Returns the command of ``ip`` that puts the port into the bridge, or into the void if the link is cut."""
        return f"link set dev {self._port} master {_VOID if self._is_cut else _BRIDGE}"
