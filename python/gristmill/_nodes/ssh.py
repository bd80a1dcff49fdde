"""Agents on hosts that this user may log in to with ``ssh``."""

from __future__ import annotations

import random
import shlex

from gristmill._nodes.affinity import checked
from gristmill._nodes.command import AgentCommand
from gristmill._nodes.groups import group_of
from gristmill._nodes.placement import Placement, port_of
from gristmill._nodes.post import Post
from gristmill._nodes.tending import Tender

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from gristmill._nodes.door import Door
    from gristmill._nodes.groups import Group

#: Nobody is there to type a password; a host that does not answer, or no more, is noticed after half a minute: what
#: lasts longer would count as a connection that was there.
_OPTIONS = (
    "-T",
    "-o",
    "BatchMode=yes",
    "-o",
    "ConnectTimeout=30",
    "-o",
    "ServerAliveInterval=10",
    "-o",
    "ServerAliveCountMax=3",
)
#: A forward that cannot be had is a failure, and lasts as long as its agent: a connection of its own.
_FORWARD_OPTIONS = (
    "-o",
    "ExitOnForwardFailure=yes",
    "-o",
    "ControlMaster=no",
    "-o",
    "ControlPath=none",
)
#: Ports of hosts for forwards: free for everybody, and below those that Linux gives to connections.
_FORWARD_PORTS = range(20_000, 32_768)


class SshNodes(Placement):
    """An agent on each host, which lives as long as its connection.

    The key goes through the connection: it is on no command line, in no file and in no environment. An agent that ends
    while it is needed is started again.

    :param hosts: names as ``ssh`` takes them.
    :param workers: workers on each; its cores if not given.
    :param python: the interpreter there; the path of this one if not given.
    :param worker_init: commands of a login shell before the agent starts.
    :param shell: the command, and options of it.
    :param door: where the hosts find this program.
    :param group: nodes that they are near to.
    :param reverse: whether they reach it through the connections of ``ssh`` instead.
    :param cpu_affinity: binds workers to cores.
    """

    def __init__(
        self,
        hosts: Sequence[str],
        workers: int | None,
        python: str | None,
        worker_init: str,
        shell: Sequence[str],
        door: Door,
        group: Group,
        reverse: bool,
        cpu_affinity: str = "none",
    ) -> None:
        if isinstance(hosts, str) or not hosts:
            raise ValueError("hosts is a list with at least one name")
        if any(host.startswith("-") for host in hosts):
            raise ValueError("the name of a host does not begin with a dash")
        if reverse and (door.address or door.interface):
            raise ValueError(
                "with reverse=True hosts reach this program through ssh: leave address and interface out"
            )
        self.hosts = list(hosts)
        self.node_count = len({_name_of(host) for host in hosts})
        self.workers = workers
        self.python = python
        self.worker_init = worker_init
        self.shell = list(shell)
        self.door = door
        self.listen = door.listen_here if reverse else door.listen
        self.group = group
        self.reverse = reverse
        self.cpu_affinity = checked(cpu_affinity)
        self.tender: Tender | None = None

    def start(self, address: str | None, key: str) -> None:
        """Starts the agents."""
        posts = [self._post(host, address, key) for host in self.hosts]
        self.tender = Tender(posts, self.client.is_over, self.client.give_up)
        self.tender.start()

    def _post(self, host: str, address: str | None, key: str) -> Post:
        group = group_of(self.group, _name_of(host))
        if not self.reverse:
            return Post(host, self._command(host, self.door.told(address), group), line=key)
        port = port_of(address)

        def command() -> list[str]:
            # Another one each time: whoever else may have the last one is not known here.
            there = f"127.0.0.1:{random.choice(_FORWARD_PORTS)}"
            forward = [*_FORWARD_OPTIONS, "-R", f"{there}:127.0.0.1:{port}"]
            return self._command(host, [there], group, forward)

        return Post(host, command, line=key)

    def _command(
        self, host: str, join: Sequence[str], group: str | None, forward: Sequence[str] = ()
    ) -> list[str]:
        """What is run here."""
        agent = AgentCommand(
            join,
            key="-",
            python=self.python,
            name=_name_of(host),
            workers=self.workers,
            group=group,
            cpu_affinity=self.cpu_affinity,
            is_leashed=True,
        )
        command = f"exec {shlex.join(agent.arguments())}"
        if self.worker_init:
            # A login shell knows what sites put there: modules, environments.
            command = shlex.join(["exec", "bash", "-lc", f"{self.worker_init}\n{command}"])
        return [*self.shell, *_OPTIONS, *forward, "--", host, command]

    def end(self) -> None:
        """Ends the connections, and the agents with them."""
        if self.tender is not None:
            self.tender.end()

    def troubles(self) -> list[tuple[str, str]]:
        """Which hosts have no agent now, and why."""
        return self.tender.troubles() if self.tender is not None else []


def _name_of(host: str) -> str:
    """What the node there is called."""
    return host.rpartition("@")[2]
