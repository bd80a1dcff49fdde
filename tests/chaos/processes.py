"""The processes of a campaign's executor: their roles, their states, and what is left of them at the end."""

from __future__ import annotations

import contextlib
import enum
import os
from collections.abc import Callable
from pathlib import Path

from stage import descent, family

#: Variable of the environment that marks all processes of a campaign.
MARK = "GRISTMILL_CHAOS"


class Role(enum.Enum):
    """Part that a process plays."""

    AGENT = enum.auto()
    KEEPER = enum.auto()
    ZYGOTE = enum.auto()
    STAND_BY = enum.auto()
    WORKER = enum.auto()


class Tree:
    """The processes of an executor of this process; ``agents`` returns those of its nodes."""

    def __init__(self, agents: Callable[[], list[int]] = list) -> None:
        self._agents = agents

    def processes(self, role: Role) -> list[int]:
        """Returns the living processes of a role, in the order of their ids."""
        if role is Role.AGENT:
            return sorted(self._agents())
        return sorted(one for one in descent(os.getpid()) if _role(one) is role)

    def below(self, process: int) -> list[int]:
        """Returns the living descendants of a process."""
        return descent(process)

    def describe(self) -> str:
        """Returns a line for each process: its id, role, state, and where it sleeps in the kernel."""
        lines = []
        for process in descent(os.getpid()):
            role = _role(process)
            state = next(
                (line for line in _read(process, "status").splitlines() if line[:6] == "State:"), ""
            )
            lines.append(
                f"  {process} {role.name.lower() if role else _read(process, 'comm').strip()}: "
                f"{state[6:].strip()}, sleeps in {_read(process, 'wchan') or '?'}"
            )
        return "\n".join(lines)


def mark_processes() -> str:
    """Marks all processes that this one starts from now on; returns the mark, which no other campaign has."""
    os.environ[MARK] = f"{os.getpid()}-{os.urandom(8).hex()}"
    return f"{MARK}={os.environ[MARK]}"


def marked(mark: str) -> list[str]:
    """Returns the living processes with the mark, except this one, and their command lines."""
    return [
        f"{process} {_read(process, 'cmdline').replace(chr(0), ' ').strip()}"
        for process in family(mark.encode())
    ]


def descriptors() -> list[str]:
    """Returns the targets of this process's open files, without their numbers."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found.append(os.readlink(f"/proc/self/fd/{name}"))
    return found


def shared_files() -> set[str]:
    """Returns the names of the engine's files in shared memory."""
    try:
        return {name for name in os.listdir("/dev/shm") if "gristmill" in name}
    except OSError:
        return set()


def shared_mappings() -> dict[str, str]:
    """Returns a mapping of each of the engine's memory files in this process, by the file's number."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return {line.split()[4]: line for line in lines if "memfd:" in line and "gristmill" in line}


def private_memory() -> int:
    """Returns the bytes of memory that this process shares with no other."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) << 10
    raise OSError("the kernel tells no RssAnon")


def _role(process: int) -> Role | None:
    """Returns the role of a process of an executor: a worker has a session of its own, a zygote is in the keeper's."""
    command = _read(process, "cmdline")
    if "keeper" in command:
        return Role.KEEPER
    if "_zygote" not in command:
        return None
    if _read(process, "comm") == "gristmill-next\n":
        return Role.STAND_BY
    try:
        session = os.getsid(process)
    except ProcessLookupError:
        return None
    if session == process:
        return Role.WORKER
    return Role.ZYGOTE if "keeper" in _read(session, "cmdline") else None


def _read(process: int, name: str) -> str:
    try:
        return Path(f"/proc/{process}/{name}").read_text(errors="replace")
    except OSError:
        return ""
