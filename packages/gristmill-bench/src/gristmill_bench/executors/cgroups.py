"""Control groups, of version 2 or 1, that limit the CPU time of the processes in them.

Each is a folder of its own, in this process's group or in one above it, wherever this process may make one. Root may,
and so may a process that got its group from a container or from systemd (``Delegate=yes``).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep

from gristmill_bench import run_names
from gristmill_bench.errors import BenchError

#: Period of a CPU share in microseconds: short, so that it limits single tasks of that length, and not only many
#: together.
_PERIOD_US = 10_000
#: Smallest CPU time that the kernel gives in a period, microseconds.
_QUOTA_MIN_US = 1_000
#: Seconds that ended processes may take to leave a group.
_LEAVE_S = 5.0


def make(number: int, share: float) -> Path:
    """Makes a group with a share of one CPU and returns its folder.

    Raises ``BenchError`` with the reasons if it cannot.
    """
    reasons = []
    for parent, version in parents():
        folder = parent / f"{run_names.here()}{os.getpid()}-{number}"
        try:
            folder.mkdir()
        except OSError as error:
            reasons.append(f"{parent}: {error.strerror}")
            continue
        try:
            _bound(folder, version, share)
        except OSError as error:
            folder.rmdir()
            reasons.append(f"{parent}: no limit of processor time can be set: {error.strerror}")
            continue
        return folder
    said = "; ".join(reasons) or "the system has no cpu controller"
    raise BenchError(f"groups need a control group, and none can be made here: {said}")


def enter(folder: Path) -> None:
    """Moves this process into a group, with all of its threads; processes that it starts are there too."""
    _write(folder / "cgroup.procs", str(os.getpid()))


def remove(folder: Path) -> None:
    """Removes a group once its processes are gone. A group that stays in use is left."""
    end = monotonic() + _LEAVE_S
    while folder.exists():
        try:
            folder.rmdir()
        except OSError:
            if monotonic() > end:
                return
            sleep(0.01)


def sweep(run: str) -> None:
    """Removes the groups that an ended run has left, and those of programs that were killed in this namespace."""
    here = run_names.begins(str(run_names.namespace()))
    for parent, _ in parents():
        for folder in parent.glob(f"{run_names.begins(run)}*"):
            remove(folder)
        for folder in parent.glob(f"{here}*"):
            process = folder.name.removeprefix(here).partition("-")[0]
            if not Path("/proc", process).exists():
                with suppress(OSError):
                    folder.rmdir()


def _bound(folder: Path, version: int, share: float) -> None:
    period = max(_PERIOD_US, round(_QUOTA_MIN_US / share))
    quota = round(share * period)
    if version == 2:
        _write(folder / "cpu.max", f"{quota} {period}")
    else:
        _write(folder / "cpu.cfs_period_us", str(period))
        _write(folder / "cpu.cfs_quota_us", str(quota))


def _write(path: Path, text: str) -> None:
    """Writes to an existing file; a missing file is an error, and means that the group has no such limit."""
    with path.open("r+") as file:
        file.write(text)


def parents() -> Iterator[tuple[Path, int]]:
    """Yields this process's group and those above it, with the version, if there is a cpu controller."""
    for version, root, mount in _mounts():
        path = _group_here(version)
        below = path.removeprefix(root) if root != "/" else path
        folder = mount / below.lstrip("/")
        while True:
            yield folder, version
            if folder == mount or mount not in folder.parents:
                break
            folder = folder.parent


def _mounts() -> Iterator[tuple[int, str, Path]]:
    """Yields the mounts of control groups with a cpu controller: version, group at the top, and folder."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        place, _, source = line.partition(" - ")
        root, mount = place.split()[3:5]
        kind, _, options = source.split(maxsplit=2)
        if kind == "cgroup" and "cpu" in options.split(","):
            yield 1, root, Path(mount)
        elif kind == "cgroup2":
            with suppress(OSError):
                if "cpu" in Path(mount, "cgroup.controllers").read_text().split():
                    yield 2, root, Path(mount)


def _group_here(version: int) -> str:
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if (version == 2 and not controllers) or "cpu" in controllers.split(","):
            return path
    return "/"
