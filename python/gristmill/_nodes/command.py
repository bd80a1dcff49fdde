"""The command that starts an agent: what a placement hands to a shell, a launcher or a batch system."""

from __future__ import annotations

import dataclasses
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: What an agent ends with that found no client, or lost it: the next one may do better.
IN_VAIN = 1
#: What it ends with when it cannot do what its command line says, as most programs do: every other one would, too.
MISUSED = 2
#: What it ends with when it was refused for good: another key, version or Python, or no worker starts. Every other one
#: would be, too. A number that shells, ``ssh`` and launchers do not use themselves, and pass on.
REFUSED = 77

#: Stands for the node's host name in what it is called, and for the number of its rank.
HOST, RANK = "%h", "%r"


@dataclasses.dataclass(frozen=True)
class AgentCommand:
    """What an agent is told."""

    #: Where its client may be, as ``host:port``; the agent finds out which of them it can reach.
    join: Sequence[str]
    #: The file with the nodes' key; ``-`` for standard input; ``None`` for ``$GRISTMILL_NODE_KEY``.
    key: str | None = None
    #: The interpreter; this one's path if not given.
    python: str | None = None
    #: What the node is called, with ``%h`` and ``%r`` in it.
    name: str = HOST
    #: Workers to offer; as many as there are cores if not given.
    workers: int | None = None
    #: Nodes that it is near to.
    group: str | None = None
    #: What binds workers to cores.
    cpu_affinity: str = "none"
    #: Whether the agent ends with its standard input.
    is_leashed: bool = False
    #: Whether it shares its node with other ranks of one launcher.
    is_rank: bool = False
    #: Further options and their values; those without a value are left out.
    more: Sequence[tuple[str, object]] = ()

    def arguments(self) -> list[str]:
        """The command, as words."""
        words = [self.python or sys.executable, "-m", "gristmill._cli", "node", "--quiet"]
        for one in self.join:
            words += ["--join", one]
        own = {"key": self.key, "name": self.name, "workers": self.workers, "group": self.group}
        affinity = None if self.cpu_affinity == "none" else self.cpu_affinity
        options = [*own.items(), ("cpu-affinity", affinity), *self.more]
        for option, value in options:
            if value is not None:
                words += [f"--{option}", str(value)]
        switches = {"--leash": self.is_leashed, "--rank": self.is_rank}
        return [*words, *(switch for switch, is_on in switches.items() if is_on)]
