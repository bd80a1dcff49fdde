"""Runs in namespaces of their own, where a run can see and signal only its own processes.

The first process of such a run's process-id namespace is ``gristmill_bench.first``. When it ends, the kernel ends all
other processes of the namespace. The run also has its own ``/dev/shm``, with its temporary files in it; both disappear
with the run. No privileges are needed: a user namespace grants them. Network and disk are not isolated.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from gristmill_bench.errors import BenchError

#: The module that the first process runs.
_FIRST = "gristmill_bench.first"
#: The variable that tells the program of such a run the namespace it must not be in.
OUTSIDE = "GRISTMILL_BENCH_OUTSIDE"
#: The directory of files in memory; such a run has its own.
MEMORY = "/dev/shm"
#: Options of ``unshare``. With ``--kill-child`` the processes inside end with ``unshare``, however it ends.
_SPACES = ["--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child"]
_UNSHARE = ["unshare", *_SPACES, "--mount-proc"]


def missing() -> str | None:
    """Returns why this machine cannot run anything in namespaces, or ``None`` if it can."""
    if shutil.which("unshare") is None:
        return "there is no unshare (Debian, Ubuntu: apt-get install util-linux)"
    tried = subprocess.run([*_UNSHARE, "true"], capture_output=True, text=True, check=False)
    if tried.returncode == 0:
        return None
    said = (tried.stderr.strip().splitlines() or [f"it ended with {tried.returncode}"])[-1]
    return (
        f"there are no user and process-id namespaces: {said} (see sysctl user.max_user_namespaces, "
        "kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns)"
    )


def command(words: list[str], folder: Path) -> list[str]:
    """Returns the command line that runs a command in its own namespaces, with its files in ``folder``.

    Raises ``BenchError`` if this machine has no namespaces, or if ``folder`` is in ``/dev/shm``.
    """
    reason = missing()
    if reason is not None:
        raise BenchError(f"this run has to be in namespaces of its own: {reason}")
    if folder.resolve().is_relative_to(MEMORY):
        raise BenchError(f"run.folder: a run in namespaces of its own has another {MEMORY}")
    return [*_UNSHARE, sys.executable, "-P", "-m", _FIRST, space(), *words]


class NotApart(RuntimeError):
    """A process that must kill other processes is not in the namespace of its run."""


@dataclass(frozen=True)
class Fence:
    """The namespace of a run, given to its tasks: they may kill only processes inside."""

    space: str

    def check(self) -> None:
        """Raises ``NotApart`` unless this process is inside and ``/proc`` shows this namespace."""
        if space() != self.space or not _is_first_ours():
            raise NotApart(f"this is {space()}, and the run is in {self.space}")
        if os.readlink("/proc/self") != str(os.getpid()):
            raise NotApart("/proc shows the processes of another namespace")


def fence() -> Fence:
    """Returns the fence around this program; raises ``BenchError`` if the program is not in its own namespace."""
    outside = os.environ.get(OUTSIDE)
    made = Fence(space())
    try:
        made.check()
    except NotApart as error:
        raise BenchError(f"what kills processes is run by the suite only: {error}") from error
    if outside is None or outside == made.space:
        raise BenchError("what kills processes is run by the suite only: this program is not apart")
    return made


def space() -> str:
    """Returns the process-id namespace of this process."""
    return os.readlink("/proc/self/ns/pid")


def _is_first_ours() -> bool:
    """Returns whether the suite has started the first process of this namespace."""
    return _FIRST.encode() in Path("/proc/1/cmdline").read_bytes().split(b"\0")
