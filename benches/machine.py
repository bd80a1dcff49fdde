"""Fingerprint of the machine and the memory of this process, read from /proc and /sys."""

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def fingerprint() -> dict[str, Any]:
    """Describes machine, system and interpreter: what a reader needs to repeat the run."""
    cpu = _fields("/proc/cpuinfo")
    return {
        "cpu": cpu.get("model name") or cpu.get("CPU part") or platform.machine(),
        "cores_online": os.cpu_count(),
        "cores_allowed": len(os.sched_getaffinity(0)),
        "cpu_quota": _text("/sys/fs/cgroup/cpu.max"),
        "virtual": "hypervisor" in cpu.get("flags", "").split(),
        "governor": _text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "clock_source": _text("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "huge_pages": _text("/sys/kernel/mm/transparent_hugepage/enabled"),
        "memory": _fields("/proc/meminfo").get("MemTotal"),
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()),
        "python": sys.version,
        "commit": commit(),
    }


def commit() -> str:
    """Names the commit that is measured, with `-dirty` where the tree differs from it."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=10"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return found.stdout.strip() or "unknown"


def disturbance() -> dict[str, float]:
    """Reads how busy the machine is besides us: load average, and seconds stolen since boot."""
    ticks = os.sysconf("SC_CLK_TCK")
    columns = _text("/proc/stat").split("\n", 1)[0].split()
    stolen = int(columns[8]) / ticks if len(columns) > 8 else 0.0
    return {"load_1_min": os.getloadavg()[0], "stolen_s": stolen}


def resident() -> int:
    """Returns the resident bytes of this process, shared mappings that it touched included."""
    return 1024 * int(_fields("/proc/self/status")["VmRSS"].split()[0])


def resident_parts() -> dict[str, int]:
    """Splits the resident bytes of this process into private, file and shared memory."""
    status = _fields("/proc/self/status")
    names = {"anonymous": "RssAnon", "file": "RssFile", "shared": "RssShmem"}
    return {name: 1024 * int(status[key].split()[0]) for name, key in names.items()}


def _fields(path: str) -> dict[str, str]:
    """Reads the first `name: value` of each name."""
    fields: dict[str, str] = {}
    for line in _text(path).splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    return fields


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
