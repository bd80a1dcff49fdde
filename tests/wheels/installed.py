"""Environments with the engine installed from the artifacts of ``./dev wheels``."""

from __future__ import annotations

import os
import re
import subprocess
import zipfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DIST = ROOT / "dist"
#: The packages that a wheel requires, and the packages that building an sdist requires.
WHEELHOUSE = ROOT / "target" / "wheelhouse"
#: Names of programs that compile or link.
COMPILERS = re.compile(
    r"^(.*-)?(cc|c\+\+|gcc|g\+\+|cpp|clang|clang\+\+|ld|as|rustc|cargo|zig)([-.].*)?$"
)


@dataclass(frozen=True)
class Installed:
    """An environment with the engine installed from one artifact."""

    folder: Path
    artifact: Path
    path: str

    def run(self, *command: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """Runs a program of the environment, with none of our variables except the given ones."""
        return subprocess.run(
            [self.folder / "bin" / command[0], *command[1:]],
            cwd=self.folder,
            env={"PATH": self.path, "HOME": str(self.folder), **variables},
            capture_output=True,
            text=True,
            timeout=100,
        )

    def install(self, artifact: Path) -> None:
        """Installs a file, with the packages of the wheelhouse that it requires."""
        offline = ("--no-index", "--find-links", str(WHEELHOUSE))
        done = self.run("python", "-m", "pip", "install", "--quiet", *offline, artifact)
        assert done.returncode == 0, done.stderr

    def python(self, program: str, **variables: str) -> str:
        """Runs a Python program, which must succeed; returns its output."""
        (self.folder / "program.py").write_text(program)
        done = self.run("python", "program.py", **variables)
        assert done.returncode == 0, done.stderr
        return done.stdout

    @property
    def module(self) -> Path:
        """The native module."""
        (found,) = self.folder.glob("lib/python3*/site-packages/gristmill/_native.*.so")
        return found


def wheels() -> list[Path]:
    """Returns the engine's wheels."""
    return sorted(DIST.glob("gristmill-*.whl"))


def bench_wheel() -> Path:
    """Returns the wheel of the benchmark suite."""
    (found,) = DIST.glob("gristmill_bench-*.whl")
    return found


def interpreters() -> dict[str, str]:
    """Returns the interpreters that wheels were built for, by the tag in a wheel's name."""
    found = {}
    for interpreter in filter(None, os.environ.get("GRISTMILL_INTERPRETERS", "").split(":")):
        tag = "import sys; print('cp%d%d' % sys.version_info[:2])"
        said = subprocess.run([interpreter, "-c", tag], capture_output=True, text=True, check=True)
        found[said.stdout.strip()] = interpreter
    return found


def install(artifact: Path, interpreter: str, folder: Path, path: str) -> Installed:
    subprocess.run([interpreter, "-m", "venv", folder], check=True)
    found = Installed(folder, artifact, f"{folder}/bin:{path}")
    found.install(artifact)
    return found


def wheel_of_sdist(sdist: Path, interpreter: str, folder: Path) -> Path:
    """Builds a wheel from the sdist, as pip does where no wheel fits. Only the build needs a compiler."""
    subprocess.run([interpreter, "-m", "venv", folder / "builder"], check=True)
    command: list[str | Path] = [
        folder / "builder" / "bin" / "python",
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-index",
    ]
    command += ["--find-links", WHEELHOUSE, "--wheel-dir", folder / "wheels", sdist]
    # Dependencies that the checkout has compiled are reused.
    environ = {**os.environ, "CARGO_TARGET_DIR": str(ROOT / "target")}
    subprocess.run(command, check=True, env=environ)
    (wheel,) = (folder / "wheels").iterdir()
    return wheel


def artifacts() -> list[Path]:
    """Returns the engine's wheels and its sdist."""
    return [*wheels(), *sorted(DIST.glob("gristmill-*.tar.gz"))]


def content(wheel: Path) -> list[zipfile.ZipInfo]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.infolist()
