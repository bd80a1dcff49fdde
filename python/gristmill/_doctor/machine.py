"""Checks of the machine and its kernel."""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import socket
import sys

from gristmill import _resources
from gristmill._doctor.findings import Finding, bad, note, ok

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: The number of the system call ``membarrier``, by machine.
_MEMBARRIER = {"x86_64": 324, "aarch64": 283}
#: Its command that returns the supported commands, and the command that the engine uses.
_QUERY, _PRIVATE_EXPEDITED = 0, 1 << 3
#: The limit of open files below which a machine with many workers runs out of them.
_FILES_MIN = 4096
#: Processes that there may be besides a worker for each core: 64 spares, and the processes that look after all of them.
_PROCESSES_BESIDE = 72


def versions() -> Iterator[Finding]:
    """Reports the versions of Gristmill, Python and the system."""
    from gristmill import build_info

    info = build_info()
    yield ok("gristmill", f"{info['version']}, {info['profile']} build")
    if info["profile"] != "release":
        yield note("build", "a debug build is ten times slower: build with --release")
    yield ok("python", f"{platform.python_version()} at {sys.executable}")
    yield ok("system", f"{platform.system()} {platform.release()} on {platform.machine()}")


def cores_and_memory() -> Iterator[Finding]:
    """Reports how much of the machine this process may use."""
    from gristmill import _native

    usable, there = _native.cpu_count(), os.cpu_count() or 1
    yield ok("cores", f"{usable} of {there} can be used")
    if usable == 1:
        yield note("cores", "with one core no thread polls, so each message costs a wake-up")
    size, there_size = _resources.memory_size(), _resources.memory_of_machine()
    text = f"{size / 1e9:.1f} of {there_size / 1e9:.1f} GB can be used"
    yield ok("memory", text if size == there_size else f"{text}: a cgroup sets this limit")
    yield _spill_place()
    yield _gpus()


def _spill_place() -> Finding:
    """Reports where payloads go if memory has no room for them."""
    from gristmill import _native

    place, refusals = _native.spill_place()
    reasons = "; ".join(f"{directory} {reason}" for directory, reason in refusals)
    if place is not None:
        text = f"{place[1] / 1e9:.1f} GB of payloads may go to {place[0]}"
        return ok("spill", f"{text} ({reasons})" if reasons else text)
    why = reasons or "GRISTMILL_SPILL_DIR is empty"
    return note(
        "spill", f"payloads that do not fit into memory are refused: {why}; set GRISTMILL_SPILL_DIR"
    )


def _gpus() -> Finding:
    seen, there = _resources.gpu_count(), _resources.gpus_of_machine()
    variables = [name for name in _resources.GPU_LIMITS if name in os.environ]
    if not variables:
        return ok("GPUs", f"{there} found" if there else "none found")
    text = f"{seen} of {there} can be used: {variables[0]} selects them"
    if seen > there:
        return note("GPUs", f"{text}, and fewer are found")
    return ok("GPUs", text)


def limits() -> Iterator[Finding]:
    """Checks the limits that the system sets for one user."""
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files < _FILES_MIN:
        yield note(
            "open files", f"{files} may be open (at most {most}): ulimit -n {min(most, 65536)}"
        )
    else:
        yield ok("open files", f"{files} may be open")
    yield _processes()


def _processes() -> Finding:
    from gristmill import _native

    allowed, most = resource.getrlimit(resource.RLIMIT_NPROC)
    if allowed == resource.RLIM_INFINITY or os.geteuid() == 0:
        return ok("processes", "no limit")
    wanted, running = _native.cpu_count() + _PROCESSES_BESIDE, _threads_of_user()
    text = f"{running} of {allowed} of this user's run"
    if allowed - running >= wanted:
        return ok("processes", text)
    best = "unlimited" if most == resource.RLIM_INFINITY else most
    advice = f"ulimit -u {best}" if best == "unlimited" or most > allowed else "ask for more"
    return note("processes", f"{text}, and up to {wanted} more may be needed: {advice}")


def _threads_of_user() -> int:
    """Returns the number of this user's threads, all of which count as processes for the limit."""
    count = 0
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.stat(f"/proc/{entry}").st_uid == os.getuid():
                count += len(os.listdir(f"/proc/{entry}/task"))
        except OSError:  # the process has just ended
            continue
    return count


def kernel() -> Iterator[Finding]:
    """Checks the system calls that the engine needs."""
    try:
        os.close(os.memfd_create("gristmill-doctor"))
        yield ok("shared memory", "memfd_create works")
    except OSError as error:
        yield bad("shared memory", f"memfd_create: {error}: the rings and the arena need it")
    try:
        os.close(os.pidfd_open(os.getpid()))
        yield ok("pidfd", "processes can be watched")
    except OSError as error:
        yield bad("pidfd", f"pidfd_open: {error}: Linux 5.3 or newer, and no filter against it")
    yield _membarrier()
    yield _forks()


def _membarrier() -> Finding:
    number = _MEMBARRIER.get(platform.machine())
    commands = -1
    if number is not None:
        commands = ctypes.CDLL(None, use_errno=True).syscall(number, _QUERY, 0)
    if commands > 0 and commands & _PRIVATE_EXPEDITED:
        return ok("membarrier", "writers check the doorbell without a fence")
    return note("membarrier", "not available (a container's filter?): both sides use full fences")


def _forks() -> Finding:
    from gristmill import _native

    if _native.notices_clone():
        return ok("forks in tasks", "the engine detects every child that leaves its task")
    return note(
        "forks in tasks",
        "madvise(MADV_WIPEONFORK) is refused: the engine does not detect a child that a raw clone call made",
    )


def _listen() -> socket.socket:
    """Returns a socket that listens as a client does: for both families, and for IPv4 alone without IPv6."""
    if socket.has_dualstack_ipv6():
        return socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", 0))


def network() -> Iterator[Finding]:
    """Checks whether nodes could join a client here."""
    try:
        with _listen() as server:
            both = " of IPv6 and of IPv4" if server.family == socket.AF_INET6 else " of IPv4"
            yield ok("ports", f"can listen, for example at {server.getsockname()[1]}{both}")
    except OSError as error:
        yield bad("ports", f"cannot listen: {error}: let nodes listen, and dial them")
    name = socket.gethostname()
    try:
        addresses = sorted({str(found[4][0]) for found in socket.getaddrinfo(name, None)})
        yield ok("host name", f"{name} is {', '.join(addresses)}")
    except OSError as error:
        yield note("host name", f"{name} is unknown to the resolver: {error}")
