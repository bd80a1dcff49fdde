"""Environment of this process: its kind, its interpreter, and its file system."""

from __future__ import annotations

import dataclasses
import os
import platform
import sys
import sysconfig

from gristmill import _filesystem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@dataclasses.dataclass(frozen=True)
class Interpreter:
    """Properties of an interpreter that decide which compiled modules it can load."""

    implementation: str
    version: str
    #: ABI tag of compiled modules, such as ``cpython-313t-x86_64-linux-gnu``.
    abi: str
    platform: str
    #: C library and its version; ``None`` if unknown.
    libc: str | None

    def to_json(self) -> dict[str, Any]:
        """Returns the properties as plain data for JSON."""
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True)
class Environment:
    """An interpreter and the packages installed for it."""

    #: ``venv``, ``uv venv``, ``virtualenv``, ``conda`` or ``system``.
    kind: str
    prefix: str
    #: Prefix of the interpreter that a virtual environment is based on; in all other kinds equal to ``prefix``.
    base: str
    base_kind: str
    interpreter: Interpreter
    filesystem: _filesystem.FileSystem

    def to_json(self) -> dict[str, Any]:
        """Returns the environment as plain data for JSON."""
        return dataclasses.asdict(self)


def here() -> Environment:
    """Returns the environment of this process."""
    return Environment(
        kind=kind_of(sys.prefix, is_virtual=sys.prefix != sys.base_prefix),
        prefix=sys.prefix,
        base=sys.base_prefix,
        base_kind=kind_of(sys.base_prefix),
        interpreter=interpreter(),
        filesystem=_filesystem.of(sys.prefix),
    )


def interpreter() -> Interpreter:
    """Returns the properties of this process's interpreter."""
    return Interpreter(
        implementation=sys.implementation.name,
        version=platform.python_version(),
        abi=str(sysconfig.get_config_var("SOABI") or sys.implementation.cache_tag),
        platform=sysconfig.get_platform(),
        libc=_libc(),
    )


def _libc() -> str | None:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION")
    except (ValueError, OSError):  # a libc other than glibc
        name, version = platform.libc_ver()
        return f"{name} {version}" if name else None


def kind_of(prefix: str, is_virtual: bool = False) -> str:
    """Returns the kind of an environment, from the files that its creator left in the folder."""
    made = _configuration(prefix)
    if made is not None and "uv" in made:
        return "uv venv"
    if made is not None and "virtualenv" in made:
        return "virtualenv"
    if made is not None or is_virtual:
        return "venv"
    if os.path.isdir(os.path.join(prefix, "conda-meta")):
        return "conda"
    return "system"


def _configuration(prefix: str) -> dict[str, str] | None:
    """Returns the settings in ``pyvenv.cfg``; ``None`` if there is no such file."""
    try:
        with open(os.path.join(prefix, "pyvenv.cfg"), encoding="utf-8", errors="replace") as file:
            pairs = (line.partition("=") for line in file)
            return {name.strip().lower(): value.strip() for name, _, value in pairs}
    except OSError:
        return None
