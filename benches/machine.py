"""The fingerprint of the machine and the memory of this process, read from /proc and /sys."""

import os
import subprocess
from pathlib import Path
from typing import Any

from gristmill import instruments

ROOT = Path(__file__).resolve().parent.parent


def fingerprint() -> dict[str, Any]:
    """Describes machine, system, interpreter and measured commit, which a reader needs to repeat the run."""
    return {**instruments.machine_facts(), "commit": commit()}


def commit() -> str:
    """Returns the measured commit, with `-dirty` if the tree differs from it."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=10"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return found.stdout.strip() or "unknown"


def disturbance() -> dict[str, float]:
    """Returns the load of the machine by others: load average, and seconds stolen since boot."""
    ticks = os.sysconf("SC_CLK_TCK")
    columns = instruments.file_text("/proc/stat").split("\n", 1)[0].split()
    stolen = int(columns[8]) / ticks if len(columns) > 8 else 0.0
    return {"load_1_min": os.getloadavg()[0], "stolen_s": stolen}


def resident() -> int:
    """Returns the resident bytes of this process, including the shared mappings that it touched."""
    return 1024 * int(instruments.file_fields("/proc/self/status")["VmRSS"].split()[0])


def resident_parts() -> dict[str, int]:
    """Returns the resident bytes of this process as private, file and shared memory."""
    status = instruments.file_fields("/proc/self/status")
    names = {"anonymous": "RssAnon", "file": "RssFile", "shared": "RssShmem"}
    return {name: 1024 * int(status[key].split()[0]) for name, key in names.items()}


def resident_tree() -> int:
    """Returns the resident bytes of this process and its descendants; a page that several share counts once."""
    found = 0
    for process in (os.getpid(), *instruments.descendants()):
        # A process that has ended has no memory.
        fields = instruments.file_fields(f"/proc/{process}/smaps_rollup")
        found += 1024 * int(fields.get("Pss", "0").split()[0])
    return found
