"""Facts about this machine that measurements depend on, read from /proc, /sys and the engine."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Any

from gristmill import _native


def facts() -> dict[str, Any]:
    """Returns facts about machine, system and interpreter that a reader needs to judge and repeat a measurement."""
    cpus_allowed, cpu_quota = _native.cpu_limits()
    return {
        "cpu": cpu_name(),
        "cores_online": os.cpu_count(),
        "cores_allowed": cpus_allowed,
        "cpu_quota": cpu_quota,
        "virtual": "hypervisor" in fields("/proc/cpuinfo").get("flags", "").split(),
        "governor": text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "clock_source": text("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "huge_pages": text("/sys/kernel/mm/transparent_hugepage/enabled"),
        "memory": _native.memory_sizes()[1],
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()),
        "python": sys.version,
    }


def cpu_name() -> str:
    """Returns the processor's name as the kernel gives it."""
    cpu = fields("/proc/cpuinfo")
    return cpu.get("model name") or cpu.get("CPU part") or platform.machine()


def fields(path: str) -> dict[str, str]:
    """Returns the first ``name: value`` of each name in a file; nothing if the file cannot be read."""
    found: dict[str, str] = {}
    for line in text(path).splitlines():
        name, _, value = line.partition(":")
        found.setdefault(name.strip(), value.strip())
    return found


def text(path: str) -> str:
    """Returns the text of a file; an empty text if the file cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
