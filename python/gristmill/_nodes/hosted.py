"""An agent inside a cluster that somebody else runs: a child of one of that cluster's own processes."""

from __future__ import annotations

import socket

from gristmill._nodes.command import AgentCommand
from gristmill._nodes.post import Post
from gristmill._nodes.tending import Tender

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from gristmill._nodes.parts import Part


#: How long what has begun just then may go on in an agent that is replaced, and how long that may take to end, seconds.
_DRAIN_S, _RETIRE_S = 20, 30.0


class HostedAgent:
    """Keeps an agent running for as long as this process lives; the agent hangs on its standard input.

    Whoever runs the cluster for the client asks for its condition: nothing here can tell the client anything.

    :param join: where its client may be.
    :param key: the nodes' key.
    :param name: what the node is called; its host name if not given.
    :param workers: workers to offer.
    :param group: nodes that it is near to.
    :param part: of the node, where others offer the rest.
    :param cpu_affinity: binds workers to cores.
    :param cores: how many of the node's to use.
    """

    def __init__(
        self,
        join: Sequence[str],
        key: str,
        name: str | None,
        workers: int,
        group: str | None = None,
        part: Part | None = None,
        cpu_affinity: str = "none",
        cores: int | None = None,
    ) -> None:
        name = name or socket.gethostname()
        command = AgentCommand(
            join,
            key="-",
            name=name,
            workers=workers,
            group=group,
            cpu_affinity=cpu_affinity,
            is_leashed=True,
            more=[("part", part), ("drain", _DRAIN_S), ("cores", cores)],
        )
        self._tender = Tender([Post(name, command.arguments(), line=key)])
        self._tender.start()

    def condition(self) -> tuple[str, bool]:
        """Why it does not run now, which is empty if it does, and whether it is left alone."""
        is_left_alone = self._tender.is_left_alone()
        troubles = [text for _, text in self._tender.troubles()]
        return "".join(troubles), is_left_alone

    def retire(self) -> None:
        """Lets it leave once what it runs has ended, or a while has passed, and does not wait for that."""
        for agent in self._tender.running():
            agent.terminate()
        self._tender.begin_end(_RETIRE_S, slips=False)

    def stop(self) -> None:
        """Lets it leave, and does not wait for that."""
        self._tender.begin_end()
