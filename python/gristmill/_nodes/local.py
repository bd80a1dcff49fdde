"""Agents on this machine, each a process of its own: for tests, and to see how a program behaves on several nodes."""

from __future__ import annotations

from gristmill._nodes.affinity import checked
from gristmill._nodes.command import AgentCommand
from gristmill._nodes.door import Door
from gristmill._nodes.groups import group_of
from gristmill._nodes.parts import Part
from gristmill._nodes.placement import Placement, port_of
from gristmill._nodes.post import Post
from gristmill._nodes.tending import Tender

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess

    from gristmill._nodes.groups import Group


class LocalNodes(Placement):
    """``count`` agents on this machine with ``workers`` workers each, and their parts of its memory and GPUs.

    One that ends is started again.
    """

    is_here = True
    #: Further options of the command.
    options: tuple[str, ...] = ()
    #: The interpreter; this one's path if not given.
    python: str | None = None

    def __init__(
        self,
        count: int,
        workers: int,
        port: int = 0,
        group: Group = None,
        cpu_affinity: str = "none",
    ) -> None:
        if count < 1 or workers < 1:
            raise ValueError("there must be at least one node, with at least one worker")
        self.count = count
        self.node_count = count
        self.workers = workers
        self.listen = Door(port).listen_here
        self.group = group
        self.cpu_affinity = checked(cpu_affinity)
        self.tender: Tender | None = None

    @property
    def agents(self) -> list[subprocess.Popen[bytes]]:
        """The agents that run now."""
        return [] if self.tender is None else self.tender.running()

    def start(self, address: str | None, key: str) -> None:
        """Starts the agents. They end with this process, whatever ends it."""
        join = f"127.0.0.1:{port_of(address)}"
        posts = [self._post(number, join, key) for number in range(self.count)]
        self.tender = Tender(posts, self.client.is_over, self.client.give_up)
        self.tender.start()

    def _post(self, number: int, join: str, key: str) -> Post:
        name = f"local{number}"
        agent = AgentCommand(
            [join],
            key="-",
            python=self.python,
            name=name,
            workers=self.workers,
            group=group_of(self.group, name),
            cpu_affinity=self.cpu_affinity,
            is_leashed=True,
        )
        part = ["--part", str(Part(number, self.count))]
        return Post(name, [*agent.arguments(), *part, *self.options], line=key)

    def end(self) -> None:
        """Lets go of the agents, and ends those that do not leave."""
        if self.tender is not None:
            self.tender.end()

    def troubles(self) -> list[tuple[str, str]]:
        """Which agents do not run now, and why."""
        return self.tender.troubles() if self.tender is not None else []
