"""Whether somebody may look into processes on this machine, and what helps where nobody may."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

_SCOPE = Path("/proc/sys/kernel/yama/ptrace_scope")
#: From <linux/capability.h>.
_CAP_SYS_PTRACE = 1 << 19


class CannotProfile(Exception):
    """A program cannot be profiled here; the text says why, and what helps."""


def sampler() -> str:
    """The path of py-spy; ``CannotProfile``: it is not there, or not allowed to look."""
    beside = os.path.dirname(sys.executable)
    found = shutil.which("py-spy", path=os.pathsep.join([beside, os.environ.get("PATH", "")]))
    if found is None:
        raise CannotProfile("py-spy is not installed: pip install gristmill[profile]")
    scope = _SCOPE.read_text().strip() if _SCOPE.exists() else "0"
    if reason := refusal(scope, _has_privilege()):
        raise CannotProfile(reason)
    return found


def refusal(scope: str, is_privileged: bool) -> str | None:
    """Why the kernel will let nobody look, by its ``ptrace_scope`` (Yama, ``Documentation/admin-guide/LSM``)."""
    if scope == "3":
        return "kernel.yama.ptrace_scope is 3: nobody may look into processes until the next boot"
    if scope == "2" and not is_privileged:
        return (
            "kernel.yama.ptrace_scope is 2: only root may look into processes;"
            " as root, or with sysctl kernel.yama.ptrace_scope=1, it works"
        )
    return None


def _has_privilege() -> bool:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) & _CAP_SYS_PTRACE)
    return False


def reason_of(log: str) -> str:
    """Why py-spy does not look, from what it says."""
    text = " ".join(log.replace("py-spy>", " ").split())
    if "ermission" in text:
        return (
            f"py-spy is not permitted to look into the program ({text}); in a container it needs the capability"
            " SYS_PTRACE, elsewhere kernel.yama.ptrace_scope of at most 1, or root"
        )
    return f"py-spy does not look at the program: {text or 'it says nothing'}"
