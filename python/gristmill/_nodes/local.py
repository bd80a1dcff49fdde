"""Agents as processes of this machine: for tests, and to see how a program behaves on several nodes."""

from __future__ import annotations

from gristmill import _options, _starting
from gristmill._nodes.affinity import checked
from gristmill._nodes.command import AgentCommand
from gristmill._nodes.groups import group_of
from gristmill._nodes.network import network_of
from gristmill._nodes.parts import Part
from gristmill._nodes.placement import CopiedPlacement, opened
from gristmill._nodes.supervised_process import SupervisedProcess
from gristmill._nodes.supervisor import Supervisor

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess

    from gristmill._nodes.network import Network


class LocalNodes(CopiedPlacement):
    """A placement of ``count`` agents on this machine, each with ``workers`` workers and its part of memory and GPUs.

    The placement restarts an agent that ends.
    """

    is_here = True
    #: Further options of the command.
    options: tuple[str, ...] = ()
    #: The path of the interpreter; by default this process's.
    python: str | None = None

    def __init__(
        self,
        count: int,
        workers: int,
        network: Network | None = None,
        cpu_affinity: str = "none",
    ) -> None:
        count = _options.count("count", count, 1, _options.SHORT_MAX)
        workers = _options.count("workers", workers, 1, _options.SHORT_MAX)
        network = network_of(network)
        if network.has_address:
            raise ValueError(
                "agents on this machine use its loopback interface: leave address and interface out"
            )
        self.count = count
        self.node_count = count
        self.workers = workers
        self.listen = network.listen_here
        self.group = network.group
        self.cpu_affinity = checked(cpu_affinity)
        self._forget_run()

    @property
    def agents(self) -> list[subprocess.Popen[bytes]]:
        """The agents that run now."""
        return [] if self.supervisor is None else self.supervisor.running()

    def _forget_run(self) -> None:
        """Forgets the processes."""
        self.supervisor: Supervisor | None = None

    def start(self, address: str | None, key: str) -> None:
        """Starts the agents. They end with this process, however it ends."""
        join = opened(address)
        posts = [self._post(number, join, key) for number in range(self.count)]
        view = self.client
        self.supervisor = Supervisor(
            posts, view.is_over, view.give_up, view.leaving, view.connected
        )
        self.supervisor.start()

    def _post(self, number: int, join: str, key: str) -> SupervisedProcess:
        name = f"local{number}"
        agent = AgentCommand(
            [join],
            key="-",
            python=self.python,
            is_here=True,
            name=name,
            workers=self.workers,
            group=group_of(self.group, name),
            cpu_affinity=self.cpu_affinity,
            is_leashed=True,
        )
        part = ["--part", str(Part(number, self.count))]
        command = [*agent.arguments(), *part, *self.options]
        variables = _starting.variables() if self.python is None else {}
        return SupervisedProcess(name, command, variables, line=key)

    def end(self) -> None:
        """Releases the agents, and ends those that do not leave."""
        if self.supervisor is not None:
            self.supervisor.end()

    def failures(self) -> list[tuple[str, str]]:
        """Returns the agents that do not run now, and the reasons."""
        return self.supervisor.failures() if self.supervisor is not None else []
