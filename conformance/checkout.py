"""Tests from a project's Git repository, for a release whose source on PyPI contains no tests.

A checkout names the folder of tests by its hash as well as by a tag, so the tested content stays fixed even if the tag
moves. The repository is first searched for in ``$GRISTMILL_CHECKOUTS``, a folder of clones named after the projects. If
it is not there, it is cloned. For machines that do not reach the repository, some projects have an archive with the
same tests elsewhere.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
import tempfile
import urllib.request
from dataclasses import dataclass
from pathlib import Path

#: Environment variable with the folder of clones, for a machine that cannot reach the repositories.
_CLONES = "GRISTMILL_CHECKOUTS"
#: Limit in seconds for an answer of the server of an archive.
_PATIENCE_S = 60


class Unreachable(Exception):
    """Error for tests that are neither on this machine nor can be cloned. The message says what to do."""


@dataclass(frozen=True)
class Checkout:
    """A folder of tests at one version."""

    project: str
    version: str
    #: Repository to clone.
    repository: str
    tag: str
    #: Path of the tests in the repository.
    folder: str
    #: Git's hash of that folder.
    tree: str
    #: URL of an archive of the project's source with the same folder; empty if there is none.
    archive: str = ""

    @property
    def name(self) -> str:
        """Name of the folder that the tests are unpacked in."""
        return f"{self.project}-{self.version}"

    def unpack(self, folder: Path) -> Path:
        """Makes a pristine copy of the tests below ``folder``. Returns its path.

        Raises ``Unreachable`` if the tests are not available.
        """
        clone = self._find(folder) or self._clone(folder)
        packed = _git(clone, "archive", f"--prefix={self.folder}/", self.tree)
        source = folder / self.name
        shutil.rmtree(source, ignore_errors=True)
        with tarfile.open(fileobj=io.BytesIO(packed)) as file:
            file.extractall(source, filter="data")
        return source

    def _find(self, folder: Path) -> Path | None:
        """Returns the clone that contains the tests; ``None`` if no clone does."""
        given = os.environ.get(_CLONES)
        clones = [folder / f"{self.name}.git"]
        if given:
            clones.insert(0, Path(given) / self.project)
        for clone in clones:
            if clone.exists() and _has(clone, self.tree):
                return clone
        return None

    def _clone(self, folder: Path) -> Path:
        clone = folder / f"{self.name}.git"
        shutil.rmtree(clone, ignore_errors=True)
        what = ["--quiet", "--bare", "--depth", "1", "--branch", self.tag, self.repository]
        told = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
        done = subprocess.run(
            ["git", "clone", *what, str(clone)], capture_output=True, text=True, env=told
        )
        if done.returncode != 0 and not self._read_archive(clone):
            said = (done.stderr.strip().splitlines() or ["git says nothing"])[-1]
            raise Unreachable(
                f"{self.repository} cannot be cloned ({said}); set ${_CLONES} to a folder with a clone {self.project}"
            )
        if not _has(clone, self.tree):
            raise SystemExit(
                f"{self.repository} has other tests at {self.tag} than those with the hash {self.tree}"
            )
        return clone

    def _read_archive(self, clone: Path) -> bool:
        """Makes a repository of the tests in the archive. Returns whether there is an archive."""
        if not self.archive:
            return False
        try:
            with urllib.request.urlopen(self.archive, timeout=_PATIENCE_S) as answer:
                packed = answer.read()
        except OSError:
            return False
        with (
            tempfile.TemporaryDirectory() as scratch,
            tarfile.open(fileobj=io.BytesIO(packed)) as file,
        ):
            file.extractall(scratch, filter="data")
            [source] = Path(scratch).iterdir()
            subprocess.run(["git", "init", "--quiet", "--bare", str(clone)], check=True)
            # The project's list of ignored files does not apply: the archive has what belongs to it.
            _git(clone, "--work-tree", str(source), "add", "--force", self.folder)
            _git(clone, "write-tree", f"--prefix={self.folder}/")
        return True


def _has(clone: Path, tree: str) -> bool:
    command = ["git", "-C", str(clone), "cat-file", "-e", f"{tree}^{{tree}}"]
    return subprocess.run(command, capture_output=True).returncode == 0


def _git(clone: Path, *arguments: str) -> bytes:
    command = ["git", "-C", str(clone), *arguments]
    return subprocess.run(command, check=True, capture_output=True).stdout
