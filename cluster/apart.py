"""Separation of this process from the host's network and mounts, so that a cluster changes nothing that others see.

The bridge, links and mounts that are made there vanish with the last process inside, however it ends. Root needs no
more rights. Other users get them from a user namespace, if the kernel lets them have one.
"""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import subprocess
from pathlib import Path

_NEW_MOUNTS, _NEW_USER, _NEW_NETWORK = 0x0002_0000, 0x1000_0000, 0x4000_0000
#: Ways to get the rights: as root, or as root in a user namespace.
_WAYS: dict[int, list[str]] = {0: [], _NEW_USER: ["--user", "--map-root-user"]}
#: A small trial of everything that a cluster asks of the kernel.
_TRIAL = """
mount -t proc proc /proc && mount -t tmpfs tmpfs /tmp && ip link add name bridge type bridge &&
ip link add name one type veth peer name other && tc qdisc add dev one root tbf rate 1mbit burst 9kb latency 9ms
"""
_TOOLS = {"ip": "iproute2", "tc": "iproute2", "mount": "mount", "unshare": "util-linux"}


def missing(tools: dict[str, str]) -> str | None:
    """Returns the command that installs the named programs, each with its package; ``None`` if all are there."""
    _look_where_root_looks()
    packages = sorted({package for tool, package in tools.items() if not shutil.which(tool)})
    return f"apt-get install --no-install-recommends {' '.join(packages)}" if packages else None


@functools.cache
def hindrance() -> str | None:
    """Returns the reason why there can be no cluster here; ``None`` if there can."""
    return missing(_TOOLS) or (_trial()[1] or None)


@functools.cache
def go_apart() -> None:
    """Moves this process, which must have one thread, into namespaces of its own, for good."""
    extra, reason = _trial()
    if reason:
        raise OSError(reason)
    user, group = os.geteuid(), os.getegid()
    library = ctypes.CDLL(None, use_errno=True)
    if library.unshare(_NEW_MOUNTS | _NEW_NETWORK | extra):
        raise OSError(ctypes.get_errno(), "no namespaces can be made")
    if extra:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    subprocess.run(["ip", "link", "set", "dev", "lo", "up"], check=True)


@functools.cache
def _trial() -> tuple[int, str]:
    """Returns the flag of the way that works and an empty text, or 0 and the error of the last way tried."""
    _look_where_root_looks()
    said = ""
    for flag, arguments in _WAYS.items():
        spaces = ["--mount", "--net", "--uts", "--ipc", "--pid", "--fork"]
        command = ["unshare", *arguments, *spaces, "sh", "-c", _TRIAL]
        tried = subprocess.run(command, capture_output=True, text=True)
        if tried.returncode == 0:
            return flag, ""
        said = tried.stderr.strip()
    return 0, f"neither root's rights nor a user namespace with them: {said}"


def _look_where_root_looks() -> None:
    """Adds the folders of a system's daemons to ``PATH``, which users of Debian lack."""
    folders = os.environ.get("PATH", os.defpath).split(":")
    more = [folder for folder in ("/usr/sbin", "/sbin") if folder not in folders]
    os.environ["PATH"] = ":".join(folders + more)
