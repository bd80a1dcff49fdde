"""What a run ran on: enough for a reader to judge its figures, and to repeat it."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import gristmill

#: Variables that change what is measured.
_TELLING = (
    "OMP_",
    "OPENBLAS_",
    "MKL_",
    "PYTHON",
    "GRISTMILL_",
    "RAY_",
    "DASK_",
    "PARSL_",
    "MALLOC_",
    "GLIBC_",
)


def capture() -> dict[str, Any]:
    """The machine, the system, the interpreter, what is installed, and how busy it all is."""
    return {
        "cpu": _field("/proc/cpuinfo", "model name") or platform.machine(),
        "cores_online": os.cpu_count(),
        "cores_allowed": len(os.sched_getaffinity(0)),
        "cpu_quota": _text("/sys/fs/cgroup/cpu.max"),
        "memory": _field("/proc/meminfo", "MemTotal"),
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()),
        "clock_source": _text("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "load_1_min": os.getloadavg()[0],
        "python": sys.version,
        "gristmill": gristmill.build_info(),
        "distributions": dict(sorted((one.name, one.version) for one in distributions())),
        "variables": {
            name: value for name, value in sorted(os.environ.items()) if name.startswith(_TELLING)
        },
        "command": sys.orig_argv,
    }


def _field(path: str, name: str) -> str:
    for line in _text(path).splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return ""


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
