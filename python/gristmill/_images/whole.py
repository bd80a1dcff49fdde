"""Interpreter in an image: the parts that an environment lacks are added, so that it needs nothing of the node.

The result is an installation instead of a virtual environment. Its interpreter is a file in ``bin``, its standard
library is beside the packages, and its prefix is derived from its own path.
"""

from __future__ import annotations

import os
import stat

from gristmill._errors import ImageError
from gristmill._images import listing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gristmill._images.interpreter import Interpreter
    from gristmill._images.listing import Found

#: Parts of a standard library that no program needs: packages of the installation itself, tests, and development files.
_LEFT_OUT = ("site-packages", "test", "idlelib", "turtledemo")

#: Library search path of a program, relative to its own folder.
_BESIDE = b"$ORIGIN/../lib"


def add(found: list[Found], changed: dict[str, bytes], said: Interpreter, prefix: str) -> None:
    """Adds the interpreter to the files of an environment."""
    if os.path.realpath(said.base) == prefix:
        return  # it is an installation of its own already
    if said.is_changed:
        raise ImageError(
            f"{prefix} cannot be packed with its interpreter {said.executable}: it was changed to look for packages "
            "elsewhere (a distribution's own): make the environment with another interpreter, "
            "such as those of uv and conda"
        )
    changed.pop("pyvenv.cfg", None)
    links = [one for one in found if listing.is_interpreter(one.name)]
    found[:] = [one for one in found if one.name != "pyvenv.cfg" and one not in links]
    real = "python" + ".".join(said.version.split(".")[:2])
    found.append(_file(f"bin/{real}", said.executable))
    names = {"bin/python", "bin/python3", *(one.name for one in links)} - {f"bin/{real}"}
    for name in sorted(names):
        found.append(listing.Found(name, said.executable, stat.S_IFLNK | 0o777, 0, 0, real))
    there = {one.name for one in found}
    library = os.path.relpath(said.library, said.base)
    for one in listing.walk(said.library, library, _is_left_out):
        if one.name not in there:
            found.append(one)
    if said.shared_library:
        found.append(_file("lib/" + os.path.basename(said.shared_library), said.shared_library))
        changed[f"bin/{real}"] = _program(said)


def _program(said: Interpreter) -> bytes:
    """Returns the interpreter program, changed to look for its library relative to its own folder."""
    with open(said.executable, "rb") as file:
        program = file.read()
    if _BESIDE in program:
        return program
    place = os.fsencode(os.path.dirname(said.shared_library)) + b"\0"
    # The program contains the path as plain bytes, so a shorter path fits in its place.
    if place not in program or len(place) <= len(_BESIDE):
        raise ImageError(
            f"{said.executable} cannot be packed: it needs {said.shared_library} and does not "
            "state where it looks for that library: make the environment with another "
            "interpreter, such as those of uv and conda"
        )
    return program.replace(place, _BESIDE.ljust(len(place), b"\0"))


def _file(name: str, path: str) -> Found:
    status = os.stat(path)
    return listing.Found(name, path, status.st_mode, status.st_size, status.st_mtime_ns, "")


def _is_left_out(name: str) -> bool:
    top, _, _ = name.partition("/")
    return top in _LEFT_OUT or top.startswith("config-")
