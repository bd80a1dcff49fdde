"""Runs in namespaces of their own: whatever they do to processes, they find none but theirs.

Such a run is below a process that is the first of a process-id namespace: ``gristmill.bench.first``. When that ends,
the kernel ends all others in there. ``/dev/shm`` and, there, temporary files are the run's own too, and go with it. It
needs no rights: a user namespace gives them. It bounds neither network nor disk.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from gristmill.bench.errors import BenchError

#: What the first process runs.
_FIRST = "gristmill.bench.first"
#: For the program of such a run: the namespace that it must not be in.
OUTSIDE = "GRISTMILL_BENCH_OUTSIDE"
#: Files in memory, of which such a run has its own.
MEMORY = "/dev/shm"
#: ``--kill-child``: what is inside ends with this, however this ends.
_SPACES = ["--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child"]
_UNSHARE = ["unshare", *_SPACES, "--mount-proc"]


def missing() -> str | None:
    """Why nothing can be run apart on this machine; ``None``: it can."""
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
    """What runs a command apart, whose files are in a folder; ``BenchError``: that cannot be."""
    reason = missing()
    if reason is not None:
        raise BenchError(f"this run has to be in namespaces of its own: {reason}")
    if folder.resolve().is_relative_to(MEMORY):
        raise BenchError(f"run.folder: a run in namespaces of its own has another {MEMORY}")
    return [*_UNSHARE, sys.executable, "-m", _FIRST, space(), *words]


class NotApart(RuntimeError):
    """A process that is to kill others is not where only those of its run are."""


@dataclass(frozen=True)
class Fence:
    """The namespace of a run, for its tasks: what they may kill is inside."""

    space: str

    def check(self) -> None:
        """Raises ``NotApart`` unless this process is inside, and sees exactly what is inside."""
        if space() != self.space or not _is_first_ours():
            raise NotApart(f"this is {space()}, and the run is in {self.space}")
        if os.readlink("/proc/self") != str(os.getpid()):
            raise NotApart("/proc shows the processes of another namespace")


def fence() -> Fence:
    """The fence around this program; ``BenchError``: it is not apart."""
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
    """The process-id namespace of this process."""
    return os.readlink("/proc/self/ns/pid")


def _is_first_ours() -> bool:
    """Whether the first process of this namespace is one that the suite has made."""
    return _FIRST.encode() in Path("/proc/1/cmdline").read_bytes().split(b"\0")
