"""Checks whether this machine permits to inspect processes, and advice if it does not."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

_SCOPE = Path("/proc/sys/kernel/yama/ptrace_scope")
#: The bit of CAP_SYS_PTRACE, from <linux/capability.h>.
_CAP_SYS_PTRACE = 1 << 19


class CannotProfile(Exception):
    """An error for a program that cannot be profiled here. The text says why, and what helps."""


def sampler() -> str:
    """Returns the path of py-spy. Raises ``CannotProfile`` if it is not installed or not permitted to inspect."""
    beside = os.path.dirname(sys.executable)
    found = shutil.which("py-spy", path=os.pathsep.join([beside, os.environ.get("PATH", "")]))
    if found is None:
        raise CannotProfile('py-spy is not installed: pip install "py-spy>=0.4"')
    scope = _SCOPE.read_text().strip() if _SCOPE.exists() else "0"
    if reason := refusal(scope, _has_privilege()):
        raise CannotProfile(reason)
    return found


def refusal(scope: str, is_privileged: bool) -> str | None:
    """Returns why the kernel will refuse, or ``None``, by its ``ptrace_scope``.

    Source: Yama, ``Documentation/admin-guide/LSM``.
    """
    if scope == "3":
        return "kernel.yama.ptrace_scope is 3: no process may trace another one until the next boot"
    if scope == "2" and not is_privileged:
        return (
            "kernel.yama.ptrace_scope is 2: only root may trace processes; run it as root, or "
            "set sysctl kernel.yama.ptrace_scope=1"
        )
    return None


def _has_privilege() -> bool:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) & _CAP_SYS_PTRACE)
    return False


def reason_of(log: str) -> str:
    """Returns why py-spy does not sample, from its output."""
    text = " ".join(log.replace("py-spy>", " ").split())
    if "ermission" in text:
        return (
            f"py-spy is not permitted to trace the program ({text}); in a container it needs "
            "the capability SYS_PTRACE, elsewhere kernel.yama.ptrace_scope of at most 1, or root"
        )
    return f"py-spy does not sample the program: {text or 'it printed no reason'}"
