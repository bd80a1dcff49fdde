"""Agents on this machine, each a process of its own: for tests, and to see how a program behaves on several nodes."""

from __future__ import annotations

import subprocess
import sys

from gristmill._nodes.parts import Part
from gristmill._nodes.placement import Placement, port_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO

#: Seconds that an agent may take to leave once its client has finished.
_LEAVE_S = 10.0


class LocalNodes(Placement):
    """``count`` agents on this machine with ``workers`` workers each, and their parts of its memory and GPUs."""

    listen = "127.0.0.1:0"
    #: Further options of the command.
    options: tuple[str, ...] = ()

    def __init__(self, count: int, workers: int) -> None:
        if count < 1 or workers < 1:
            raise ValueError("there must be at least one node, with at least one worker")
        self.count = count
        self.workers = workers
        self.agents: list[subprocess.Popen[bytes]] = []

    def start(self, address: str | None, key: str) -> None:
        """Starts the agents. They end with this process, whatever ends it."""
        join = f"127.0.0.1:{port_of(address)}"
        command = [sys.executable, "-m", "gristmill._cli", "node", "--quiet", "--leash", "--key=-"]
        for number in range(self.count):
            own = ["--join", join, "--workers", str(self.workers), "--name", f"local{number}"]
            line = [*command, *own, "--part", str(Part(number, self.count)), *self.options]
            self.agents.append(subprocess.Popen(line, stdin=subprocess.PIPE, bufsize=0))
            _leash(self.agents[-1]).write(key.encode() + b"\n")

    def end(self) -> None:
        """Lets go of the agents, and ends those that do not leave."""
        for agent in self.agents:
            _leash(agent).close()
        for agent in self.agents:
            try:
                agent.wait(_LEAVE_S)
            except subprocess.TimeoutExpired:
                agent.kill()
                agent.wait()
        self.agents.clear()


def _leash(agent: subprocess.Popen[bytes]) -> IO[bytes]:
    assert agent.stdin is not None, "a pipe"
    return agent.stdin
