"""Control groups that bound the processor time of the processes in them, of version 2 or 1.

Each is a folder of its own, beside this process's group or above it, wherever this process may make one: root may,
and who was given a group by a container or by systemd (``Delegate=yes``).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep

from gristmill.bench import run_names
from gristmill.bench.errors import BenchError

#: Microseconds in which a share is given: short, so that tasks of that length meet it, and not only the sum of many.
_PERIOD_US = 10_000
#: The kernel gives no less in a period, microseconds.
_QUOTA_MIN_US = 1_000
#: How long processes that have ended may take to be gone, seconds.
_LEAVE_S = 5.0


def make(number: int, share: float) -> Path:
    """Makes a group with a share of one processor; gives its folder. ``BenchError`` says why that cannot be."""
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
    """Moves this process there, with all of its threads; what it starts is there too."""
    _write(folder / "cgroup.procs", str(os.getpid()))


def remove(folder: Path) -> None:
    """Removes a group once its processes are gone. One that stays in use stays."""
    end = monotonic() + _LEAVE_S
    while folder.exists():
        try:
            folder.rmdir()
        except OSError:
            if monotonic() > end:
                return
            sleep(0.01)


def sweep(run: str) -> None:
    """Removes what a run has left that has ended, and what those have whose programs were killed in this namespace."""
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
    """Writes to a file that is there: where it is not, the group has no such limit."""
    with path.open("r+") as file:
        file.write(text)


def parents() -> Iterator[tuple[Path, int]]:
    """This process's group and those above it, with the version, where there is a cpu controller."""
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
    """Where control groups with a cpu controller are mounted: version, the group that is at the top, the folder."""
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
