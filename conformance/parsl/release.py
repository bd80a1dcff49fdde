"""Parsl's released source, which has its tests: downloaded once, checked each time, unpacked for each invocation."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

VERSION = "2026.10.26"
_SHA256 = "8a0550a51dace16bb1c79b2538de55cb9e72bdb1748c9b9c1a733718a019d1f1"


def unpack(folder: Path) -> Path:
    """Makes a pristine copy of the source below ``folder``; gives its path.

    Raises ``SystemExit`` when the archive is not the one that is known.
    """
    archive = folder / f"parsl-{VERSION}.tar.gz"
    if not archive.exists():
        _download(folder)
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != _SHA256:
        raise SystemExit(f"{archive} has the hash {found}, not {_SHA256}: remove it to try again")
    source = folder / f"parsl-{VERSION}"
    shutil.rmtree(source, ignore_errors=True)
    with tarfile.open(archive) as file:
        file.extractall(folder, filter="data")
    return source


def _download(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-binary", ":all:"]
    wanted = f"parsl=={VERSION}"
    subprocess.run(
        [sys.executable, "-m", "pip", "download", *options, "--dest", str(folder), wanted],
        check=True,
    )
