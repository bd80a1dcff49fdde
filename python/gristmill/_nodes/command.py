"""The command line that starts an agent: placements pass it to a shell, a launcher or a batch system."""

from __future__ import annotations

import dataclasses
import re

from gristmill import _starting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: The exit status of an agent that found no client or lost it. The next agent may succeed.
IN_VAIN = 1
#: The exit status of an agent that cannot follow its command line, as of most programs. Every other agent would fail
#: too.
MISUSED = 2
#: The exit status of an agent that was refused permanently: another key, version or Python, or no worker starts. Every
#: other agent would be refused too. Shells, ``ssh`` and launchers do not use this number themselves, and pass it on.
REFUSED = 77

#: The stand-in for an exit status of a command that did not find its host. Every other try would fail too.
UNKNOWN_HOST = -1

#: The placeholders for the node's host name and for the number of its rank in the name of an agent.
HOST, RANK = "%h", "%r"
_PLACEHOLDERS = re.compile(r"%[hr%]")


def literal(name: str) -> str:
    """Returns the form of a name in a command in which nothing of it is a placeholder, as in ``fe80::1%hsn0``."""
    return name.replace("%", "%%")


def name_of(form: str, host: str, rank: object) -> str:
    """Returns a node's name, in which placeholders are replaced; ``%%`` stands for a percent sign."""
    meanings = {HOST: host, RANK: str(rank), "%%": "%"}
    return _PLACEHOLDERS.sub(lambda found: meanings[found[0]], form)


@dataclasses.dataclass(frozen=True)
class AgentCommand:
    """The options of an agent's command line."""

    #: The client's possible addresses, as ``host:port``. The agent finds out which of them it can reach.
    join: Sequence[str]
    #: The file with the nodes' key; ``-`` for standard input; ``None`` for ``$GRISTMILL_NODE_KEY``.
    key: str | None = None
    #: The path of the interpreter; by default this process's.
    python: str | None = None
    #: True if the agent runs on this machine. By default it then needs the variables of ``_starting.variables()``.
    is_here: bool = False
    #: The name of the node, with the placeholders ``%h`` and ``%r``; see ``literal``.
    name: str = HOST
    #: The number of workers to offer; by default the number of cores.
    workers: int | None = None
    #: The group of nodes that the node is near to.
    group: str | None = None
    #: The policy that binds workers to cores.
    cpu_affinity: str = "none"
    #: True if the agent ends when its standard input ends.
    is_leashed: bool = False
    #: True if the agent shares its node with other ranks of one launcher.
    is_rank: bool = False
    #: Further options and their values. Options whose value is ``None`` are left out.
    more: Sequence[tuple[str, object]] = ()

    def arguments(self) -> list[str]:
        """Returns the command as a list of words.

        Raises ``StartError`` if there is no interpreter for the agent.
        """
        words = self._beginning()
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

    def _beginning(self) -> list[str]:
        words = ["gristmill._cli", "node", "--quiet"]
        if self.is_here and self.python is None:
            return _starting.command(*words)
        # Without the option the agent would import the standard library from the folder that it is started in.
        return [self.python or _starting.interpreter(), "-P", "-m", *words]
