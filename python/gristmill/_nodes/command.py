"""The command that starts an agent: what a placement hands to a shell, a launcher or a batch system."""

from __future__ import annotations

import dataclasses
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: Stands for the node's host name in what it is called.
HOST = "%h"


@dataclasses.dataclass(frozen=True)
class AgentCommand:
    """What an agent is told."""

    #: Where its client may be, as ``host:port``; the agent finds out which of them it can reach.
    join: Sequence[str]
    #: The file with the nodes' key; ``-`` for standard input; ``None`` for ``$GRISTMILL_NODE_KEY``.
    key: str | None = None
    #: The interpreter; this one's path if not given.
    python: str | None = None
    #: What the node is called; ``%h`` in it stands for its host name.
    name: str = HOST
    #: Workers to offer; as many as there are cores if not given.
    workers: int | None = None
    #: Whether the agent ends with its standard input.
    is_leashed: bool = False
    #: Further options and their values; those without a value are left out.
    more: Sequence[tuple[str, object]] = ()

    def arguments(self) -> list[str]:
        """The command, as words."""
        words = [self.python or sys.executable, "-m", "gristmill._cli", "node", "--quiet"]
        for one in self.join:
            words += ["--join", one]
        options = [("key", self.key), ("name", self.name), ("workers", self.workers), *self.more]
        for option, value in options:
            if value is not None:
                words += [f"--{option}", str(value)]
        return [*words, "--leash"] if self.is_leashed else words
