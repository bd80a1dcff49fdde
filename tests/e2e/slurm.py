"""A real Slurm on a cluster: its controller at the login end, one of its daemons a node, all its files in one folder."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from cluster import Cluster, Machine, Process, until
from cluster.apart import missing

#: The programs, with Debian's names of the packages that they are in.
_TOOLS = {
    "munged": "munge",
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "srun": "slurm-client",
}
#: Debian keeps the parts that every configuration names in a package of their own.
_PLUGINS = "slurm-wlm-basic-plugins"
_KEY_BYTES = 128
_ASK_STATES = ["sinfo", "--noheader", "--Node", "--format", "%t"]
#: What a user of a real machine sees, but for what wants a database or control groups.
_SETTINGS = {
    "ClusterName": "e2e",
    "SlurmUser": "root",
    "SlurmdUser": "root",
    "AuthType": "auth/munge",
    "CredType": "cred/munge",
    "MpiDefault": "none",
    "ProctrackType": "proctrack/linuxproc",
    "TaskPlugin": "task/none",
    "SelectType": "select/cons_tres",
    "SelectTypeParameters": "CR_Core",
    "AccountingStorageType": "accounting_storage/none",
    "JobAcctGatherType": "jobacct_gather/none",
    # The nodes are as large as it is told, however large this machine is.
    "SlurmdParameters": "config_overrides",
    "ReturnToService": "2",
    "MailProg": "/bin/true",
}


def slurm_hindrance() -> str | None:
    """Why there can be no Slurm in a cluster that this process makes, in words; ``None`` if there can."""
    install = missing({**_TOOLS, "srun": f"slurm-client {_PLUGINS}"})
    if install:
        return f"Slurm is missing: {install}"
    if Path("/proc/self/setgroups").read_text().strip() == "deny":
        return "Slurm's daemons need a real root: they drop groups, which a user namespace forbids"
    return None


class Slurm:
    """A running Slurm; its jobs see ``cluster.shared``. What still runs when it ends does so until the cluster ends."""

    def __init__(
        self, cluster: Cluster, cores: int = 2, settings: Mapping[str, str] | None = None
    ) -> None:
        self._cluster, self._cores = cluster, cores
        self._folder = cluster.shared / "slurm"
        self._settings = {**_SETTINGS, **self._paths(), **(settings or {})}
        self._daemons: list[Process] = []
        #: What its commands need in their environment.
        self.environment = {"SLURM_CONF": str(self._folder / "slurm.conf")}

    def __enter__(self) -> Slurm:
        self._configure()
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for daemon in reversed(self._daemons):
            daemon.end()

    def run(
        self, command: Sequence[str | Path], cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs one of its commands at the login end, to a good end."""
        return self._cluster.login.run(command, env=self.environment, cwd=cwd)

    def states(self) -> list[str]:
        """The state of each node, as ``sinfo`` says it."""
        return self.run(_ASK_STATES).stdout.split()

    def jobs(self) -> dict[str, str]:
        """The state of each job that has not ended, as ``squeue`` says it."""
        lines = self.run(["squeue", "--noheader", "--format", "%i %T"]).stdout.splitlines()
        return dict(line.split() for line in lines)

    def start_daemon(self, node: Machine) -> None:
        """Starts the node's daemon, once more if the node was booted anew."""
        self._begin(node, ["slurmd", "-D"])

    def _paths(self) -> dict[str, str]:
        """Where it keeps what it writes; %n is a node's name."""
        paths = {
            "StateSaveLocation": "state",
            "SlurmctldPidFile": "slurmctld.pid",
            "SlurmctldLogFile": "slurmctld.log",
            "SlurmdSpoolDir": "spool-%n",
            "SlurmdPidFile": "slurmd-%n.pid",
            "SlurmdLogFile": "slurmd-%n.log",
        }
        return {key: str(self._folder / name) for key, name in paths.items()}

    def _configure(self) -> None:
        self._folder.mkdir()
        login, nodes = self._cluster.login, self._cluster.nodes
        lines = [f"{key}={value}" for key, value in self._settings.items()]
        lines += [f"SlurmctldHost={login.name}({login.address})"]
        lines += [f"AuthInfo=socket={self._folder / 'munge.socket'}"]
        size = f"CPUs={self._cores} RealMemory=4000"
        lines += [f"NodeName={node.name} NodeAddr={node.address} {size}" for node in nodes]
        lines += ["PartitionName=debug Nodes=ALL Default=YES State=UP", ""]
        (self._folder / "slurm.conf").write_text("\n".join(lines))
        # Looked at even where nothing asks for control groups; version 2 may be there or not.
        (self._folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        key = self._folder / "munge.key"
        key.touch(0o600)
        key.write_bytes(os.urandom(_KEY_BYTES))

    def _start(self) -> None:
        cluster = self._cluster
        files = {"key-file": "key", "socket": "socket", "pid-file": "pid", "seed-file": "seed"}
        files["log-file"] = "log"
        options = [f"--{option}={self._folder}/munge.{end}" for option, end in files.items()]
        self._begin(cluster.login, ["munged", "--foreground", "--force", *options])
        until((self._folder / "munge.socket").exists)
        self._begin(cluster.login, ["slurmctld", "-D"])
        for node in cluster.nodes:
            self.start_daemon(node)
        until(self._is_ready)

    def _begin(self, machine: Machine, command: list[str]) -> None:
        silent = subprocess.DEVNULL
        self._daemons.append(
            machine.start(command, env=self.environment, stdout=silent, stderr=silent)
        )

    def _is_ready(self) -> bool:
        for daemon in self._daemons:
            if daemon.poll() is not None:
                raise OSError(f"{daemon.args[0]} has ended; {self._last_words()}")
        # It fails for as long as there is no controller.
        asked = self._cluster.login.run(_ASK_STATES, env=self.environment, check=False)
        return asked.stdout.split() == ["idle"] * len(self._cluster.nodes)

    def _last_words(self) -> str:
        """What each daemon said last."""
        logs = sorted(self._folder.glob("*.log"))
        lines = {path.name: path.read_text().splitlines()[-3:] for path in logs}
        return "\n".join([f"{name}: {line}" for name in lines for line in lines[name]])
