"""A node of the cluster: a machine at the end of a link."""

from __future__ import annotations

from cluster.machine import Machine, Site
from cluster.network import BATCH, Link, Traffic, narrowing, up

#: The node's interface, as programs on it see it.
_INSIDE = "eth0"


class Node(Machine):
    """A machine with a network of its own, whose link can fail."""

    _spaces = (*Machine._spaces, "--net")

    def __init__(self, name: str, address: str, site: Site, login: Machine) -> None:
        super().__init__(name, address, site)
        self._gateway = login.address
        self._link = Link(name, login)

    def boot(self) -> None:
        """Boots the node, for the first time or after it was killed, and plugs it in."""
        super().boot()
        self._link.plug(self.pid, _INSIDE, self.address)
        lines = [*up("lo"), *up(_INSIDE, self.address, self._gateway)]
        self.run(BATCH, input="\n".join(lines))

    def kill(self) -> None:
        """Kills the node as a power cut does: at once and without a notice to its peers."""
        if self.pid:
            self._link.cut()
        super().kill()
        self._link.unplug()

    def partition(self) -> None:
        """Drops silently what the node sends and what is sent to it: connections stay open at both ends."""
        self._link.cut()

    def heal(self) -> None:
        """Lets everything pass again."""
        self._link.join()

    def limit(self, rate: str | None) -> None:
        """Limits the node's link to a rate such as ``200mbit``, in each direction; ``None`` removes the limit."""
        self._link.narrow(rate)
        self.run(narrowing(_INSIDE, rate))

    def delay(self, ms: float, loss: float = 0.0) -> None:
        """Holds each packet for ``ms`` in each direction, and drops the part ``loss`` of them; 0 and 0 end both.

        The packets then pass a Python process, which carries some 100 Mbit/s.
        """
        if ms or loss:
            self._link.delay(ms / 1000, loss)
        else:
            self._link.stop_delay()

    def traffic(self) -> Traffic:
        """Returns the bytes that have passed the node's link since the node was booted."""
        return self._link.traffic()
