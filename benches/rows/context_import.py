"""The imports of a heavy environment on a shared file system: a tree of small files, or one image."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from time import perf_counter

from benches.contexts import environment, slow_files
from benches.engines.base import share_paths
from benches.harness import alternate
from benches.model import ALONE, Block, Goal, Line, Recording, Row, Settings
from gristmill_bench.executors.base import scratch

#: A program that imports the modules of its other arguments from the folder of its first one.
_IMPORT = """
import importlib, sys
sys.path.insert(0, sys.argv[1])
for name in sys.argv[2:]:
    importlib.import_module(name)
"""
_COMMAND = "from gristmill._cli import main; main()"


class SharedImportRow(Row):
    """The imports of a heavy stack in a new interpreter, nothing cached: from the tree on a slow file system, or an
    image.

    The image is on that file system as well; the first worker of a node waits until it is open. The interpreter and the
    standard library are on the local disk in both cases.
    """

    key = "context-import"
    title = "heavy imports, 1 ms for each request of a file system"
    unit = "s"

    def blocks(self, settings: Settings) -> list[Block]:
        return [Block(ALONE, timeout_s=900)]

    def lines(self) -> list[Line]:
        tree = "a tree of files"
        first = f"{self.title}, from an image, opening included"
        return [
            Line(
                f"{self.title}, from an open image",
                ALONE,
                "lower",
                "image",
                "tree",
                tree,
                must=Goal(1 / 3.5, "ratio"),
                moonshot=Goal(1 / 8, "ratio"),
            ),
            Line(first, ALONE, "lower", "first", "tree", tree),
        ]

    def measure(self, block: str, settings: Settings) -> Recording:
        environment.needed("mfusepy", *environment.HEAVY)
        share_paths()
        kind = "squashfs" if shutil.which("mksquashfs") else "tar"
        with scratch() as folder:
            image = Image(Path(folder), kind)
            size = image.packed.stat().st_size
            recording = Recording(parameters={"format": kind, "image size": size})
            try:
                recording.add("s", alternate(settings, image.tree, image.seconds))
            finally:
                image.drop()
        return recording


class Image:
    """This environment as an image in a folder, and the paths of both."""

    def __init__(self, folder: Path, kind: str) -> None:
        self._local, self._at = folder / "local", folder / "slow"
        self.packed = folder / "shared" / "environment.image"
        for made in (self._local, self.packed.parent):
            made.mkdir()
        places = {"XDG_CACHE_HOME": str(folder), "GRISTMILL_LOCAL_DIR": str(self._local)}
        self._environment = {**os.environ, **places}
        self._command("pack", "--format", kind, "-o", str(self.packed))

    def tree(self) -> dict[str, float]:
        """Times imports from the files themselves."""
        packages = Path(sysconfig.get_path("purelib"))
        environment.forget(list(environment.files()))
        with slow_files.mounted(packages, self._at):
            return {"tree": imported(self._at)}

    def seconds(self) -> dict[str, float]:
        """Times the opening of the image, and imports from it with nothing cached."""
        self.drop()
        environment.forget([str(self.packed)])
        with slow_files.mounted(self.packed.parent, self._at):
            start = perf_counter()
            tree = Path(self._command("open", str(self._at / self.packed.name)))
            opening = perf_counter() - start
        within = Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
        environment.forget(list(environment.files(self._local)))
        took = imported(tree / within)
        return {"image": took, "opening": opening, "first": opening + took}

    def drop(self) -> None:
        """Closes the image."""
        self._command("drop", "--all")

    def _command(self, *words: str) -> str:
        """Runs `gristmill env`; returns what it prints."""
        command = [sys.executable, "-c", _COMMAND, "env", *words]
        done = subprocess.run(
            command, env=self._environment, stdout=subprocess.PIPE, text=True, check=True
        )
        return done.stdout.strip()


def imported(packages: Path) -> float:
    """Imports the heavy stack from a folder in a new interpreter; returns the seconds of the whole process."""
    interpreter = os.path.realpath(sys.executable)
    command = [interpreter, "-I", "-S", "-c", _IMPORT, str(packages), *environment.HEAVY]
    start = perf_counter()
    subprocess.run(command, check=True)
    return perf_counter() - start
