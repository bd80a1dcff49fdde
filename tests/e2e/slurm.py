"""A real Slurm on a cluster: its controller at the login end, one daemon a node, all its files in one folder."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from cluster import Cluster, Machine, Process, until
from cluster.apart import missing

#: Programs of Slurm, with the Debian packages that contain them.
_TOOLS = {
    "munged": "munge",
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "srun": "slurm-client",
}
#: Debian's package of the plug-ins that every configuration names.
_PLUGINS = "slurm-wlm-basic-plugins"
_KEY_BYTES = 128
_ASK_STATES = ["sinfo", "--noheader", "--Node", "--format", "%t"]
#: Settings that a user of a real machine sees, except those that need a database or control groups.
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
    # The nodes have the sizes that the configuration gives, whatever the size of this machine.
    "SlurmdParameters": "config_overrides",
    "ReturnToService": "2",
    "MailProg": "/bin/true",
}


def slurm_hindrance() -> str | None:
    """Returns why no Slurm can run in a cluster that this process makes, in words; ``None`` if one can."""
    install = missing({**_TOOLS, "srun": f"slurm-client {_PLUGINS}"})
    if install:
        return f"Slurm is missing: {install}"
    if Path("/proc/self/setgroups").read_text().strip() == "deny":
        return "Slurm's daemons need a real root: they drop groups, which a user namespace forbids"
    return None


class Slurm:
    """A running Slurm. Its jobs see ``cluster.shared``. A job that runs when Slurm ends continues until the cluster
    ends.
    """

    def __init__(
        self, cluster: Cluster, cores: int = 2, settings: Mapping[str, str] | None = None
    ) -> None:
        self._cluster, self._cores = cluster, cores
        self._folder = cluster.shared / "slurm"
        self._settings = {**_SETTINGS, **self._paths(), **(settings or {})}
        self._daemons: list[Process] = []
        #: Environment variables that Slurm's commands need.
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
        """Runs one of Slurm's commands at the login end; the command must succeed."""
        return self._cluster.login.run(command, env=self.environment, cwd=cwd)

    def states(self) -> list[str]:
        """Returns the state of each node, as ``sinfo`` prints it."""
        return self.run(_ASK_STATES).stdout.split()

    def jobs(self) -> dict[str, str]:
        """Returns the state of each job that has not ended, as ``squeue`` prints it."""
        lines = self.run(["squeue", "--noheader", "--format", "%i %T"]).stdout.splitlines()
        return dict(line.split() for line in lines)

    def start_daemon(self, node: Machine) -> None:
        """Starts the node's daemon, and starts it again after a reboot of the node."""
        self._begin(node, ["slurmd", "-D"])

    def _paths(self) -> dict[str, str]:
        """Returns the paths of the files that Slurm writes; %n is a node's name."""
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
        # Slurm reads this file even if no setting needs control groups; version 2 may exist or not.
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
        # The command fails until the controller runs.
        asked = self._cluster.login.run(_ASK_STATES, env=self.environment, check=False)
        return asked.stdout.split() == ["idle"] * len(self._cluster.nodes)

    def _last_words(self) -> str:
        """Returns the last lines of each daemon's log."""
        logs = sorted(self._folder.glob("*.log"))
        lines = {path.name: path.read_text().splitlines()[-3:] for path in logs}
        return "\n".join([f"{name}: {line}" for name in lines for line in lines[name]])
