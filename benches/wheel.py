"""Builds of the engine that are imported from a folder."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path


def unpacked(tree: Path, folder: Path, target: Path, *options: str) -> Path:
    """Builds a wheel of the files in `tree` for this interpreter, and unpacks it.

    Cargo's output goes to `target`, all else below `folder`; `options` are maturin's. Returns the folder to import the
    engine from. Raises ``OSError`` or ``subprocess.CalledProcessError`` if it cannot be built.
    """
    wheels, package, partial = folder / "wheels", folder / "package", folder / "partial"
    for old in (wheels, package, partial):
        shutil.rmtree(old, ignore_errors=True)
    command = [sys.executable, "-m", "maturin", "build", "--release", "--locked", "--quiet"]
    command += [*options, "--interpreter", sys.executable, "--out", str(wheels)]
    environment = {**os.environ, "CARGO_TARGET_DIR": str(target)}
    subprocess.run(command, cwd=tree, env=environment, check=True)
    (wheel,) = wheels.glob("*.whl")
    with zipfile.ZipFile(wheel) as files:
        files.extractall(partial)
    # The name appears once all is there.
    return partial.rename(package)
