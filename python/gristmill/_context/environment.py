"""The environment that a program runs in: its kind, its interpreter, and what kind of file system it lies on."""

from __future__ import annotations

import dataclasses
import os
import platform
import sys
import sysconfig

from gristmill._context import filesystem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@dataclasses.dataclass(frozen=True)
class Interpreter:
    """What of an interpreter decides which compiled modules it can load."""

    implementation: str
    version: str
    #: What compiled modules are for, such as ``cpython-313t-x86_64-linux-gnu``.
    abi: str
    platform: str
    #: The C library and its version; ``None`` if it does not say.
    libc: str | None

    def to_json(self) -> dict[str, Any]:
        """As data."""
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True)
class Environment:
    """An interpreter and what is installed for it."""

    #: ``venv``, ``uv venv``, ``virtualenv``, ``conda`` or ``system``.
    kind: str
    prefix: str
    #: Where the interpreter of a virtual environment is from; its own prefix in all others.
    base: str
    base_kind: str
    interpreter: Interpreter
    filesystem: filesystem.FileSystem

    def to_json(self) -> dict[str, Any]:
        """As data."""
        return dataclasses.asdict(self)


def here() -> Environment:
    """The environment of this process."""
    return Environment(
        kind=kind_of(sys.prefix, is_virtual=sys.prefix != sys.base_prefix),
        prefix=sys.prefix,
        base=sys.base_prefix,
        base_kind=kind_of(sys.base_prefix),
        interpreter=interpreter(),
        filesystem=filesystem.of(sys.prefix),
    )


def interpreter() -> Interpreter:
    """The interpreter of this process."""
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
    except (ValueError, OSError):  # another one than glibc
        name, version = platform.libc_ver()
        return f"{name} {version}" if name else None


def kind_of(prefix: str, is_virtual: bool = False) -> str:
    """What made an environment, by what it left in its folder."""
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
    """What ``pyvenv.cfg`` says; ``None`` if there is none."""
    try:
        with open(os.path.join(prefix, "pyvenv.cfg"), encoding="utf-8", errors="replace") as file:
            pairs = (line.partition("=") for line in file)
            return {name.strip().lower(): value.strip() for name, _, value in pairs}
    except OSError:
        return None
