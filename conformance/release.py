"""Released sources that contain their project's tests: downloaded once, verified each time, unpacked for each run."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Release:
    """Source of one version on PyPI."""

    project: str
    version: str
    sha256: str

    @property
    def name(self) -> str:
        """Name of the archive, without its suffix, and of its folder."""
        return f"{self.project}-{self.version}"

    def unpack(self, folder: Path) -> Path:
        """Makes a pristine copy of the source below ``folder``. Returns its path.

        Raises ``SystemExit`` if the archive does not have the expected hash.
        """
        archive = folder / f"{self.name}.tar.gz"
        if not archive.exists():
            self._download(folder)
        found = hashlib.sha256(archive.read_bytes()).hexdigest()
        if found != self.sha256:
            raise SystemExit(
                f"{archive} has the hash {found}, not {self.sha256}: remove it to try again"
            )
        source = folder / self.name
        shutil.rmtree(source, ignore_errors=True)
        with tarfile.open(archive) as file:
            file.extractall(folder, filter="data")
        return source

    def _download(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        options = ["--quiet", "--disable-pip-version-check", "--no-deps"]
        source_only = ["--no-binary", self.project]
        wanted = f"{self.project}=={self.version}"
        command = [sys.executable, "-m", "pip", "download", *options, *source_only]
        subprocess.run([*command, "--dest", str(folder), wanted], check=True)
