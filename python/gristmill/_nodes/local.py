"""Agents on this machine, each a process of its own: for tests, and to see how a program behaves on several nodes."""

from __future__ import annotations

import os
import subprocess
import sys

from gristmill._nodes.placement import Placement, port_of

#: Seconds that an agent may take to leave once its client has finished.
_LEAVE_S = 10.0


class LocalNodes(Placement):
    """``count`` agents on this machine with ``workers`` workers each."""

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
        """Starts the agents."""
        environment = {**os.environ, "GRISTMILL_NODE_KEY": key}
        join = f"127.0.0.1:{port_of(address)}"
        command = [sys.executable, "-m", "gristmill._cli", "node", "--quiet", "--join", join]
        for number in range(self.count):
            part = ["--workers", str(self.workers), "--name", f"local{number}"]
            self.agents.append(subprocess.Popen([*command, *part, *self.options], env=environment))

    def end(self) -> None:
        """Tells the agents to leave, and ends those that do not."""
        for agent in self.agents:
            agent.terminate()  # one that has not found its client yet would go on looking for it
        for agent in self.agents:
            try:
                agent.wait(_LEAVE_S)
            except subprocess.TimeoutExpired:
                agent.kill()
                agent.wait()
        self.agents.clear()
