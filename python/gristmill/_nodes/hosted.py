"""An agent inside a cluster that another system runs, as a child of one of that cluster's own processes."""

from __future__ import annotations

import socket

from gristmill import _starting
from gristmill._nodes.command import AgentCommand, literal
from gristmill._nodes.supervised_process import SupervisedProcess
from gristmill._nodes.supervisor import Supervisor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from gristmill._nodes.parts import Part


#: The time for which tasks of a replaced agent may go on, and the time limit for its end, seconds.
_DRAIN_S, _RETIRE_S = 20, 30.0


class HostedAgent:
    """A supervisor of one agent for the lifetime of this process. The agent ends when its standard input ends.

    The agent cannot report to the client itself: the placement polls ``condition`` through the cluster.

    :param join: the possible addresses of its client.
    :param key: the nodes' key.
    :param name: the name of the node; by default its host name.
    :param workers: workers to offer.
    :param group: the group of near nodes.
    :param part: the part of the node to offer, if other agents offer the rest.
    :param cpu_affinity: the policy that binds workers to cores.
    :param cores: the number of the node's cores to use.
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
            is_here=True,
            name=literal(name),
            workers=workers,
            group=group,
            cpu_affinity=cpu_affinity,
            is_leashed=True,
            more=[("part", part), ("drain", _DRAIN_S), ("cores", cores)],
        )
        process = SupervisedProcess(name, command.arguments(), _starting.variables(), line=key)
        self._supervisor = Supervisor([process])
        self._supervisor.start()

    def condition(self) -> tuple[str, bool]:
        """Returns why the agent does not run now, empty if it runs, and whether it is not started again."""
        is_left_alone = self._supervisor.is_left_alone()
        failures = [text for _, text in self._supervisor.failures()]
        return "".join(failures), is_left_alone

    def retire(self) -> None:
        """Lets the agent leave once its running tasks have ended or a time limit has passed. Does not wait for it."""
        for agent in self._supervisor.running():
            agent.terminate()
        self._supervisor.begin_end(_RETIRE_S, slips=False)

    def stop(self) -> None:
        """Lets the agent leave. Does not wait for it."""
        self._supervisor.begin_end()
