"""The cluster: a login end and its nodes, from the first namespace to the removal of the last."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from cluster import openmpi
from cluster.apart import go_apart
from cluster.folder import shared_folder
from cluster.machine import Machine, Site
from cluster.network import bridge, command, narrow_bridge
from cluster.node import Node

_NETWORK = "10.77.0"
_REPOSITORY = Path(__file__).parents[1]


class Cluster:
    """``nodes`` nodes n1, n2 and so on, at 10.77.0.1 and up; this process is at the login end, 10.77.0.254.

    The first cluster takes this process out of the host's network for good (``go_apart``). There is one at a time.
    """

    def __init__(self, nodes: int = 4, visible: Iterable[Path] = ()) -> None:
        self._count = nodes
        # An interpreter, its packages and the programs to run, in whatever folders these are.
        own = [_REPOSITORY, Path(sys.prefix), Path(sys.base_prefix), *visible]
        self._visible = tuple({path.resolve() for path in own})
        self._stack = contextlib.ExitStack()
        #: A folder that all machines see under the same name; /tmp and /dev/shm are each machine's own.
        self.shared: Path
        #: The login end of the network as a machine: commands started on it end with the cluster.
        self.login: Machine
        #: A program that is called like ``ssh``, as ``HOST COMMAND...``, on any machine of the cluster.
        self.shell: Path
        self.nodes: list[Node]

    def __enter__(self) -> Cluster:
        go_apart()
        with contextlib.ExitStack() as stack:
            self.shared = stack.enter_context(shared_folder())
            self._make_folders()
            self._bind("hosts", "/etc/hosts", stack)
            self._bind("resolver", "/etc/resolv.conf", stack)
            self._boot(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def node(self, name: str) -> Node:
        """Returns the node of that name."""
        return next(node for node in self.nodes if node.name == name)

    def limit(self, rate: str) -> None:
        """Narrows all links, and the login end's outgoing traffic, to a rate such as ``200mbit``."""
        narrow_bridge(rate)
        for node in self.nodes:
            node.limit(rate)

    def mpiexec(
        self,
        hosts: Sequence[str],
        command: Sequence[str | Path],
        *,
        per_host: int = 1,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Runs an Open MPI program on the nodes of these names from the login end. Raises if it fails."""
        start = openmpi.mpiexec(self.shell, f"{_NETWORK}.0/24", hosts, per_host)
        more = {**openmpi.ENVIRONMENT, **(env or {})}
        return self.login.run([*start, *command], env=more, cwd=cwd or self.shared)

    def _make_folders(self) -> None:
        for name in ("doors", "staging"):
            (self.shared / name).mkdir()
        self.shell = self.shared / "shell"
        openmpi.write_shell(self.shell, self.shared / "doors")
        names = {f"{_NETWORK}.254": "login"}
        names |= {f"{_NETWORK}.{index}": f"n{index}" for index in range(1, self._count + 1)}
        lines = [f"{address} {name}\n" for address, name in names.items()]
        (self.shared / "hosts").write_text("".join(["127.0.0.1 localhost\n", *lines]))
        # An empty file names no resolver, so a program fails at once.
        (self.shared / "resolver").touch()

    def _bind(self, name: str, path: str, stack: contextlib.ExitStack) -> None:
        command("mount", "--no-mtab", "--bind", str(self.shared / name), path)
        stack.callback(command, "umount", "--no-mtab", path)

    def _boot(self, stack: contextlib.ExitStack) -> None:
        site = Site(self.shared, self._visible)
        self.login = Machine("login", f"{_NETWORK}.254", site)
        stack.enter_context(bridge(self.login.address))
        addresses = {f"n{index}": f"{_NETWORK}.{index}" for index in range(1, self._count + 1)}
        self.nodes = [Node(name, addresses[name], site, self.login) for name in addresses]
        machines = [self.login, *self.nodes]
        for machine in machines:
            stack.callback(machine.kill)
            machine.begin()
        for machine in machines:
            machine.boot()
