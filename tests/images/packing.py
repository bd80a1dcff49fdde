"""Small environments to build images from, and helpers that look into nodes and run programs."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

from gristmill._images.build import Image
from gristmill._images.node import Node

#: Answer that a package in the environments prints.
ANSWER = "42"


def make_environment(path: Path) -> Path:
    """Makes a virtual environment with a package ``grain`` and a script that uses it."""
    venv.create(path, symlinks=True, with_pip=False)
    package = packages(path) / "grain"
    package.mkdir()
    (package / "__init__.py").write_text(f"answer = {ANSWER}\n\ndef main():\n    print(answer)\n")
    (package / "data.txt").write_text("data\n")
    script = path / "bin" / "grain"
    script.write_text(f"#!{path}/bin/python\nfrom grain import main\nmain()\n")
    script.chmod(0o755)
    return path


def packages(path: Path) -> Path:
    """Returns the folder of an environment's packages."""
    return path / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"


def run(*command: object, **variables: str) -> str:
    """Runs a program, which must succeed; returns its output."""
    left_out = ("PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV")
    environment = {name: value for name, value in os.environ.items() if name not in left_out}
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, env={**environment, **variables}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def tree(path: Path) -> list[str]:
    """Returns the names below a folder."""
    return sorted(str(found.relative_to(path)) for found in path.rglob("*"))


def leftovers(node: Node) -> list[str]:
    """Returns the entries of a node besides its folders and the lock of its probes."""
    parts = ("locks", "records", "trees", "files", "coming", "probe.lock")
    return [name for name in tree(Path(node.folder)) if name not in parts]


def locks(image: Image) -> list[str]:
    """Returns the files that an image leaves which could not be opened: its locks."""
    return [f"locks/{image.digest}", f"locks/{image.digest}.maker"]
