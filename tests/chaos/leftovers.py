"""The leftovers of an executor after its end: processes, files, sockets, memory of the client."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gristmill import Executor

from chaos import processes
from chaos.judge import Complaint
from chaos.mixture import Mode

#: Growth of the client's private memory that is no leak: buffers of large values.
_GROWTH_MAX = {Mode.LOCAL: 24 << 20, Mode.NODES: 64 << 20}
#: Seconds that the last processes may take to leave.
_LEAVE_S = 30.0


@dataclass(frozen=True)
class Before:
    """The state before a campaign."""

    mark: str
    #: Folders of temporary files.
    folders: tuple[Path, ...]
    descriptors: Counter[str]
    shared_files: frozenset[str]
    #: Files in memory that other executors of this process have mapped.
    mapped: frozenset[str]

    @classmethod
    def now(cls, folder: Path) -> Before:
        """Returns the present state; directs temporary files and sockets into the folder, and marks all processes."""
        folders = (folder / "tmp", folder / "run")
        for variable, path in zip(("TMPDIR", "XDG_RUNTIME_DIR"), folders, strict=True):
            path.mkdir(mode=0o700)
            os.environ[variable] = str(path)
        mark = processes.mark_processes()
        mapped = frozenset(processes.shared_mappings())
        # What the first executor of a process opens for all.
        with Executor(1) as executor:
            executor.submit(int).result()
        return cls(
            mark,
            folders,
            Counter(processes.descriptors()),
            frozenset(processes.shared_files()),
            mapped,
        )

    def complaints(self) -> Iterator[Complaint]:
        """Yields a complaint for each kind of thing that is still left after a while.

        Threads of the engine end a moment after their executor.
        """
        until = time.monotonic() + _LEAVE_S
        while (found := self._found()) and time.monotonic() < until:
            time.sleep(0.001)
        for what, names in found.items():
            listed = "\n    ".join(names[:10])
            yield Complaint(f"{len(names)} {what} are left at the end:\n    {listed}")

    def _found(self) -> dict[str, list[str]]:
        """Returns what is left, by what it is."""
        found = {
            "processes": processes.marked(self.mark),
            "open files": [*(Counter(processes.descriptors()) - self.descriptors).elements()],
            "mappings of shared memory": [
                line
                for file, line in processes.shared_mappings().items()
                if file not in self.mapped
            ],
            "files in shared memory": [*(processes.shared_files() - self.shared_files)],
            "temporary files": [
                str(path)
                for folder in self.folders
                for path in folder.rglob("*")
                if not path.is_dir()
            ],
        }
        return {what: names for what, names in found.items() if names}


def memory_complaints(mode: Mode, growth: int) -> Iterator[Complaint]:
    """Yields a complaint if the client's memory has grown by more than buffers explain."""
    if growth > _GROWTH_MAX[mode]:
        yield Complaint(f"the client's memory has grown by {growth >> 20} MiB")
