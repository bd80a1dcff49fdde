"""What this machine is, as far as measurements depend on it, read from /proc and /sys."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Any


def facts() -> dict[str, Any]:
    """Machine, system and interpreter: what a reader needs to judge a measurement, and to repeat it."""
    return {
        "cpu": cpu_name(),
        "cores_online": os.cpu_count(),
        "cores_allowed": len(os.sched_getaffinity(0)),
        "cpu_quota": text("/sys/fs/cgroup/cpu.max"),
        "virtual": "hypervisor" in fields("/proc/cpuinfo").get("flags", "").split(),
        "governor": text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "clock_source": text("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "huge_pages": text("/sys/kernel/mm/transparent_hugepage/enabled"),
        "memory": fields("/proc/meminfo").get("MemTotal"),
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()),
        "python": sys.version,
    }


def cpu_name() -> str:
    """The processor's name as the kernel gives it."""
    cpu = fields("/proc/cpuinfo")
    return cpu.get("model name") or cpu.get("CPU part") or platform.machine()


def fields(path: str) -> dict[str, str]:
    """The first ``name: value`` of each name in a file; none where it cannot be read."""
    found: dict[str, str] = {}
    for line in text(path).splitlines():
        name, _, value = line.partition(":")
        found.setdefault(name.strip(), value.strip())
    return found


def text(path: str) -> str:
    """What a file has; nothing where it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
