"""Agents as the ranks of a parallel program: ``srun`` and ``mpiexec`` start them on all nodes at once."""

from __future__ import annotations

import os
import shutil
import subprocess

from gristmill import _options
from gristmill._nodes.affinity import checked
from gristmill._nodes.command import HOST, RANK, AgentCommand
from gristmill._nodes.groups import same_group
from gristmill._nodes.key_input import KEY_VARIABLE
from gristmill._nodes.network import network_of
from gristmill._nodes.outer import surroundings
from gristmill._nodes.placement import CopiedPlacement
from gristmill._nodes.supervised_process import SupervisedProcess
from gristmill._nodes.supervisor import Supervisor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from gristmill._nodes.network import Network

#: The time that agents get to leave before their launcher must end them, seconds.
_LEAVE_S = 5.0
#: The time limit for a launcher to print its version, seconds.
_VERSION_S = 10.0
#: Options for one agent a node with all cores of the allocation there. The loss of one agent ends no other, and the
#: program may itself be a step of the same job.
_SRUN = ("--ntasks-per-node=1", "--overlap", "--cpu-bind=none", "--kill-on-bad-exit=0", "--wait=0")
#: Variables that make Open MPI 4 and 5 keep the other ranks when one is lost. No other launcher reads them.
_RECOVERY = {"OMPI_MCA_orte_enable_recovery": "1", "PRTE_MCA_prte_enable_recovery": "1"}


class RankNodes(CopiedPlacement):
    """A placement whose agents are started by one launcher, which is restarted if it ends while agents are needed.

    :param launcher: the beginning of a command; each rank runs the rest.
    :param workers: workers of each rank; by default its cores.
    :param python: the interpreter there, which has Gristmill; by default the path of this one.
    :param network: where ranks connect to this program, and the group that all of them belong to.
    :param cpu_affinity: the policy that binds workers to cores.
    """

    def __init__(
        self,
        launcher: Sequence[str],
        workers: int | None,
        python: str | None,
        network: Network | None,
        cpu_affinity: str = "none",
    ) -> None:
        self.launcher = _options.command("launcher", launcher)
        self.workers = _options.workers("workers", workers)
        self.python = _options.optional_text("python", python)
        self.network = network_of(network)
        self.listen = self.network.listen
        self.group = same_group(self.network.group)
        self.cpu_affinity = checked(cpu_affinity)
        self._forget_run()

    def _forget_run(self) -> None:
        """Forgets the processes."""
        self.supervisor: Supervisor | None = None

    def start(self, address: str | None, key: str) -> None:
        """Starts the launcher."""
        agent = AgentCommand(
            self.network.addresses(address),
            python=self.python,
            name=f"{HOST}.rank-{RANK}",
            workers=self.workers,
            group=self.group,
            cpu_affinity=self.cpu_affinity,
            is_rank=True,
        )
        command = [*handing_over(self.launcher), *agent.arguments()]
        variables = {**_RECOVERY, KEY_VARIABLE: key}
        name = os.path.basename(self.launcher[0])
        post = SupervisedProcess(name, command, variables, surroundings=surroundings())
        view = self.client
        # Without a time limit for the start: a launcher may wait for the nodes of its allocation.
        self.supervisor = Supervisor(
            [post],
            view.is_over,
            view.give_up,
            view.leaving,
            view.connected,
            node_of=lambda _: None,
        )
        self.supervisor.start()

    def end(self) -> None:
        """Lets the agents leave, and ends the launcher if it does not."""
        if self.supervisor is not None:
            self.supervisor.end(_LEAVE_S)

    def failures(self) -> list[tuple[str, str]]:
        """Returns the reason why no ranks run now."""
        return self.supervisor.failures() if self.supervisor is not None else []


def choose_launcher(count: int | None) -> list[str]:
    """Returns the launcher for ``count`` ranks: ``srun`` in a Slurm allocation, ``mpiexec`` elsewhere.

    Raises ``ValueError`` if neither is available, or if the number of ranks is unknown.
    """
    if "SLURM_JOB_ID" in os.environ and shutil.which("srun"):
        nodes = count or int(os.environ.get("SLURM_JOB_NUM_NODES", "1"))
        return ["srun", f"--nodes={nodes}", f"--ntasks={nodes}", *_SRUN]
    launcher = shutil.which("mpiexec") or shutil.which("mpirun")
    if launcher is None:
        raise ValueError(
            "neither a Slurm allocation with srun nor mpiexec was found: name a launcher"
        )
    if count is None:
        raise ValueError("give the number of ranks that mpiexec must start, or name a launcher")
    return [launcher, "-n", str(count)]


def handing_over(launcher: Sequence[str]) -> list[str]:
    """Returns the launcher with an option that passes the key on.

    Open MPI's launcher passes only named variables to ranks on other nodes.
    """
    first, *rest = launcher
    if os.path.basename(first) not in ("mpiexec", "mpirun", "orterun", "prterun"):
        return [first, *rest]
    try:
        asked = subprocess.run(
            [first, "--version"],
            capture_output=True,
            text=True,
            timeout=_VERSION_S,
            env=surroundings(),
        )
    except (OSError, subprocess.TimeoutExpired):
        return [first, *rest]
    is_open_mpi = any(name in asked.stdout for name in ("Open MPI", "OpenRTE", "PRTE", "PRRTE"))
    return [first, "-x", KEY_VARIABLE, *rest] if is_open_mpi else [first, *rest]
