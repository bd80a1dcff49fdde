"""Agents on hosts that this user may log in to with ``ssh``."""

from __future__ import annotations

import shlex

from gristmill._nodes.addresses import reachable_at
from gristmill._nodes.command import AgentCommand
from gristmill._nodes.placement import Placement, port_of
from gristmill._nodes.post import Post
from gristmill._nodes.tending import Tender

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: Nobody is there to type a password; a connection that is dead is noticed after half a minute.
_OPTIONS = (
    "-T",
    "-o",
    "BatchMode=yes",
    "-o",
    "ServerAliveInterval=10",
    "-o",
    "ServerAliveCountMax=3",
)


class SshNodes(Placement):
    """An agent on each host, which lives as long as its connection.

    The key goes through the connection: it is on no command line, in no file and in no environment. An agent that ends
    while it is needed is started again.
    """

    def __init__(
        self,
        hosts: Sequence[str],
        workers: int | None,
        python: str | None,
        worker_init: str,
        shell: Sequence[str],
        address: str | None,
        interface: str | None,
    ) -> None:
        if isinstance(hosts, str) or not hosts:
            raise ValueError("hosts is a list with at least one name")
        if any(host.startswith("-") for host in hosts):
            raise ValueError("the name of a host does not begin with a dash")
        self.hosts = list(hosts)
        self.workers = workers
        self.python = python
        self.worker_init = worker_init
        self.shell = list(shell)
        self.address = address
        self.interface = interface
        self.tender: Tender | None = None

    def start(self, address: str | None, key: str) -> None:
        """Starts the agents."""
        join = reachable_at(port_of(address), self.address, self.interface)
        posts = [self._post(host, join, key) for host in self.hosts]
        self.tender = Tender(posts, self.client.is_over, self.client.give_up)
        self.tender.start()

    def _post(self, host: str, join: Sequence[str], key: str) -> Post:
        name = host.rpartition("@")[2]
        agent = AgentCommand(
            join, key="-", python=self.python, name=name, workers=self.workers, is_leashed=True
        )
        command = f"exec {shlex.join(agent.arguments())}"
        if self.worker_init:
            # A login shell knows what sites put there: modules, environments.
            command = shlex.join(["exec", "bash", "-lc", f"{self.worker_init}\n{command}"])
        return Post(host, [*self.shell, *_OPTIONS, "--", host, command], line=key)

    def end(self) -> None:
        """Ends the connections, and the agents with them."""
        if self.tender is not None:
            self.tender.end()

    def troubles(self) -> list[tuple[str, str]]:
        """Which hosts have no agent now, and why."""
        return self.tender.troubles() if self.tender is not None else []
