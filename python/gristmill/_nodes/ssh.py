"""Agents on hosts that this user may log in to with ``ssh``."""

from __future__ import annotations

import random

from gristmill import _options
from gristmill._nodes import shell
from gristmill._nodes.affinity import checked
from gristmill._nodes.command import AgentCommand, literal
from gristmill._nodes.groups import group_of
from gristmill._nodes.network import network_of
from gristmill._nodes.placement import CopiedPlacement, opened
from gristmill._nodes.supervised_process import SupervisedProcess
from gristmill._nodes.supervisor import Supervisor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from gristmill._nodes.network import Network

#: Options for a connection without a terminal for passwords. A host that does not answer, or stops answering, is
#: noticed after half a minute; a longer try would count as a connection that worked.
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
#: The time within which an agent has to join, seconds. The login, ``worker_init`` and the search for this program
#: (two minutes) take less, unless one of them is stuck.
_START_S = 600.0
#: The message of ``ssh`` for a name that it cannot look up.
_UNKNOWN_HOST = "Could not resolve hostname"
#: Options that make a failed port forward an error, and that use a connection of its own, so that the forward lasts as
#: long as its agent.
_FORWARD_OPTIONS = (
    "-o",
    "ExitOnForwardFailure=yes",
    "-o",
    "ControlMaster=no",
    "-o",
    "ControlPath=none",
)
#: The ports of hosts for forwards: unprivileged, and below Linux's ephemeral ports.
_FORWARD_PORTS = range(20_000, 32_768)


class SshNodes(CopiedPlacement):
    """A placement with one agent on each host, which lives as long as its connection.

    The key goes through the connection: it is on no command line, in no file and in no environment variable. The
    placement restarts an agent that ends while it is needed.

    :param hosts: names as ``ssh`` takes them.
    :param workers: workers on each host; by default one for each core.
    :param python: the interpreter there; by default the path of this one.
    :param worker_init: commands of a login shell before the agent starts.
    :param ssh: the command, and its options.
    :param network: where the hosts connect to this program, and their groups.
    :param reverse: whether hosts reach this program through the connections of ``ssh`` instead.
    :param cpu_affinity: the policy that binds workers to cores.
    """

    def __init__(
        self,
        hosts: Sequence[str],
        workers: int | None,
        python: str | None,
        worker_init: str,
        ssh: Sequence[str],
        network: Network | None,
        reverse: bool,
        cpu_affinity: str = "none",
    ) -> None:
        reverse = _options.flag("reverse", reverse)
        given = _options.shown(hosts)
        hosts = () if isinstance(hosts, str) else _options.texts("hosts", hosts, "names")
        if not hosts:
            raise ValueError(f"hosts must be a list with at least one name, not {given}")
        if any(host.startswith("-") for host in hosts):
            raise ValueError("the name of a host must not begin with a dash")
        hosts = _options.distinct_names("hosts", hosts)
        network = network_of(network)
        if reverse and network.has_address:
            raise ValueError(
                "with reverse=True hosts reach this program through ssh: leave address and interface out"
            )
        self.hosts = list(hosts)
        self.node_count = len({_name_of(host) for host in hosts})
        self.workers = _options.workers("workers", workers)
        self.python = _options.optional_text("python", python)
        self.worker_init = _options.text("worker_init", worker_init)
        self.ssh = _options.command("shell", ssh)
        self.network = network
        self.listen = network.listen_here if reverse else network.listen
        self.reverse = reverse
        self.cpu_affinity = checked(cpu_affinity)
        self._forget_run()

    def _forget_run(self) -> None:
        """Forgets the processes."""
        self.supervisor: Supervisor | None = None

    def start(self, address: str | None, key: str) -> None:
        """Starts the agents."""
        posts = [self._post(host, address, key) for host in self.hosts]
        view = self.client
        self.supervisor = Supervisor(
            posts,
            view.is_over,
            view.give_up,
            view.leaving,
            view.connected,
            node_of=_name_of,
            start_limit_s=_START_S,
        )
        self.supervisor.start()

    def _post(self, host: str, address: str | None, key: str) -> SupervisedProcess:
        group = group_of(self.network.group, _name_of(host))
        if not self.reverse:
            command_here = self._command(host, self.network.addresses(address), group)
            return SupervisedProcess(host, command_here, line=key, unknown_host=_UNKNOWN_HOST)
        here = opened(address)

        def command() -> list[str]:
            # Another port each time, because other processes of the host may have taken the last one.
            there = f"127.0.0.1:{random.choice(_FORWARD_PORTS)}"
            forward = [*_FORWARD_OPTIONS, "-R", f"{there}:{here}"]
            return self._command(host, [there], group, forward)

        return SupervisedProcess(host, command, line=key, unknown_host=_UNKNOWN_HOST)

    def _command(
        self, host: str, join: Sequence[str], group: str | None, forward: Sequence[str] = ()
    ) -> list[str]:
        """Returns the command to run on this machine."""
        agent = AgentCommand(
            join,
            key="-",
            python=self.python,
            name=literal(_name_of(host)),
            workers=self.workers,
            group=group,
            cpu_affinity=self.cpu_affinity,
            is_leashed=True,
        )
        command = shell.for_any_shell(shell.after(self.worker_init, agent.arguments()))
        return [*self.ssh, *_OPTIONS, *forward, "--", host, command]

    def end(self) -> None:
        """Ends the connections, and the agents with them."""
        if self.supervisor is not None:
            self.supervisor.end()

    def failures(self) -> list[tuple[str, str]]:
        """Returns the hosts that have no agent now, and the reasons."""
        return self.supervisor.failures() if self.supervisor is not None else []


def _name_of(host: str) -> str:
    """Returns the name of the node on a host."""
    return host.rpartition("@")[2]
