"""Builds of commits, each in a folder of its own below `target/compare`."""

import io
import os
import shutil
import subprocess
import sys
import tarfile
import time
from dataclasses import dataclass
from pathlib import Path

from benches import machine, wheel

#: Folder of the builds. They share a target folder, so that what they depend on is compiled once.
FOLDER = machine.ROOT / "target" / "compare"


@dataclass(frozen=True)
class Build:
    """A built commit."""

    #: The abbreviated hash.
    commit: str
    #: Folder of the commit's files: rows are measured by its own `benches`.
    tree: Path
    #: Folder that the engine is imported from.
    package: Path

    def environment(self) -> dict[str, str]:
        """Returns the environment of a process that imports this build, and the suite of its commit."""
        paths = (self.package, self.tree / "packages" / "gristmill-bench" / "src")
        return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "PYTHONHASHSEED": "0"}


def resolve(name: str) -> str:
    """Returns the abbreviated hash of a commit. Raises ``ValueError`` if there is none of this name."""
    command = ["git", "rev-parse", "--verify", "--quiet", "--short=12", f"{name}^{{commit}}"]
    done = subprocess.run(command, cwd=machine.ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ValueError(f"there is no commit {name!r}")
    return done.stdout.strip()


def _newer(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo:
    """Returns a member of an archive that is newer than all builds.

    Cargo takes a source for unchanged if it is older than the last build, which may be that of another commit.
    """
    return tarfile.data_filter(member, folder).replace(mtime=time.time())


def build(name: str) -> Build:
    """Builds a commit, if it is not built already."""
    commit = resolve(name)
    folder = FOLDER / commit
    made = Build(commit, folder / "tree", folder / "package")
    if made.package.exists():
        return made
    print(f"building {commit}", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    made.tree.mkdir(parents=True)
    archive = subprocess.run(
        ["git", "archive", commit], cwd=machine.ROOT, capture_output=True, check=True
    )
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(made.tree, filter=_newer)
    wheel.unpacked(made.tree, folder, FOLDER / "target")
    return made
