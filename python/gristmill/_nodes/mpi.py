"""Agents as the ranks of a parallel program: what ``srun`` and ``mpiexec`` start on all nodes at once."""

from __future__ import annotations

import os
import shutil
import subprocess

from gristmill._nodes.affinity import checked
from gristmill._nodes.command import HOST, RANK, AgentCommand
from gristmill._nodes.handing import KEY_VARIABLE
from gristmill._nodes.outer import surroundings
from gristmill._nodes.placement import Placement
from gristmill._nodes.post import Post
from gristmill._nodes.tending import Tender

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from gristmill._nodes.door import Door

#: How long agents may take to leave before their launcher is told to end them, seconds.
_LEAVE_S = 5.0
#: How long a launcher may take to say which one it is, seconds.
_VERSION_S = 10.0
#: One agent a node, which has all cores of the allocation there; the loss of one ends no other. The program may itself
#: be a step of the same job.
_SRUN = ("--ntasks-per-node=1", "--overlap", "--cpu-bind=none", "--kill-on-bad-exit=0", "--wait=0")
#: Lets Open MPI, 4 and 5, leave the other ranks alone when one is lost; nothing else reads it.
_RECOVERY = {"OMPI_MCA_orte_enable_recovery": "1", "PRTE_MCA_prte_enable_recovery": "1"}


class RankNodes(Placement):
    """Agents that one launcher starts, and starts again when it has ended while they are needed.

    :param launcher: the beginning of a command whose rest is run by each rank.
    :param workers: workers of each rank; its cores if not given.
    :param python: the interpreter there, which has Gristmill; the path of this one if not given.
    :param door: where ranks find this program.
    :param group: nodes that all of them are near to.
    :param cpu_affinity: binds workers to cores.
    """

    def __init__(
        self,
        launcher: Sequence[str],
        workers: int | None,
        python: str | None,
        door: Door,
        group: str | None,
        cpu_affinity: str = "none",
    ) -> None:
        self.launcher = list(launcher)
        self.workers = workers
        self.python = python
        self.door = door
        self.listen = door.listen
        self.group = group
        self.cpu_affinity = checked(cpu_affinity)
        self.tender: Tender | None = None

    def start(self, address: str | None, key: str) -> None:
        """Starts the launcher."""
        agent = AgentCommand(
            self.door.told(address),
            python=self.python,
            name=f"{HOST}.rank-{RANK}",
            workers=self.workers,
            group=self.group,
            cpu_affinity=self.cpu_affinity,
            is_rank=True,
        )
        command = [*handing_over(self.launcher), *agent.arguments()]
        told = {**_RECOVERY, KEY_VARIABLE: key}
        name = os.path.basename(self.launcher[0])
        post = Post(name, command, told, surroundings=surroundings())
        self.tender = Tender([post], self.client.is_over, self.client.give_up)
        self.tender.start()

    def end(self) -> None:
        """Lets the agents leave, and ends the launcher if it stays."""
        if self.tender is not None:
            self.tender.end(_LEAVE_S)

    def troubles(self) -> list[tuple[str, str]]:
        """Why there are no ranks now."""
        return self.tender.troubles() if self.tender is not None else []


def choose_launcher(count: int | None) -> list[str]:
    """What starts ``count`` ranks here: ``srun`` in an allocation of Slurm, ``mpiexec`` elsewhere.

    Raises ``ValueError`` where there is neither, or nobody knows how many.
    """
    if "SLURM_JOB_ID" in os.environ and shutil.which("srun"):
        nodes = count or int(os.environ.get("SLURM_JOB_NUM_NODES", "1"))
        return ["srun", f"--nodes={nodes}", f"--ntasks={nodes}", *_SRUN]
    launcher = shutil.which("mpiexec") or shutil.which("mpirun")
    if launcher is None:
        raise ValueError(
            "there is neither an allocation of Slurm with srun, nor mpiexec: name a launcher"
        )
    if count is None:
        raise ValueError("say how many ranks mpiexec is to start, or name a launcher")
    return [launcher, "-n", str(count)]


def handing_over(launcher: Sequence[str]) -> list[str]:
    """The launcher, told to hand the key over: Open MPI's gives ranks on other nodes no variable that is not named."""
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
