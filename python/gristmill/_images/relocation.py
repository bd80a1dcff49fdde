"""Changes that let an environment work at another path.

| part | change |
|---|---|
| ``pyvenv.cfg`` | stays, without the keys that say how it was made; its folder is the prefix |
| ``.lock`` and ``conda-meta/history`` | stay out |
| scripts that name an interpreter | find it in their own folder |
| ``activate`` and similar scripts | stay out: they contain the path, and no user activates an image |
| ``.pth`` files | name folders of the environment relatively; sources of editable installs go in |
| editable installs through a finder | are refused: the finder is a program that contains the path |
| links in the environment | become relative; those to the interpreter stay; files outside go in as files |
"""

from __future__ import annotations

import os
import stat

from gristmill._errors import ImageError
from gristmill._images import listing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from gristmill._images.listing import Found

#: Keys of ``pyvenv.cfg`` that describe how the environment was made.
_OWN_KEYS = ("command", "executable", "prompt")
#: Maximum size of a script in bytes; larger files are programs.
_SCRIPT_SIZE_MAX = 1 << 20
#: Folders of interpreters that belong to no environment.
_SYSTEM = (b"/bin", b"/usr/bin", b"/usr/local/bin")
#: Script header that finds the interpreter in the script's folder. Python reads the same lines as a string.
_HEAD = b"""#!/bin/sh
'''exec' "$(dirname -- "$(readlink -f -- "$0")")"/%s "$0" "$@"
' '''
"""


def is_left_out(name: str) -> bool:
    """Returns whether a file of an environment stays out of its image."""
    file = name.removeprefix("bin/")
    is_switch = file != name and file.lower().startswith(("activate", "deactivate"))
    return is_switch or name in (".lock", "conda-meta/history")


def settings(text: str, prefix: str) -> bytes:
    """Returns the content of ``pyvenv.cfg`` in the image."""
    kept = []
    for line in text.splitlines():
        key, _, value = (part.strip() for part in line.partition("="))
        if key.lower() == "include-system-site-packages" and value.lower() == "true":
            raise ImageError(
                f"{prefix} cannot be packed: it also uses packages of the system, which are not "
                "in it: make an environment without --system-site-packages"
            )
        if key and key.lower() not in _OWN_KEYS:
            kept.append(f"{key} = {value}\n")
    return "".join(kept).encode()


def script(found: Found) -> bytes | None:
    """Returns the content of a script in the image; ``None`` if the script stays unchanged."""
    if not stat.S_ISREG(found.mode) or found.size > _SCRIPT_SIZE_MAX:
        return None
    with open(found.path, "rb") as file:
        if file.read(2) != b"#!":
            return None
        text = b"#!" + file.read()
    first, _, rest = text.partition(b"\n")
    words = first[2:].split()
    if words == [b"/bin/sh"] and rest.startswith(b"'''exec' "):
        # Installers use this form if the interpreter's path is long or contains a space.
        second, _, rest = rest.partition(b"\n")
        _, _, rest = rest.partition(b"\n")
        path = second.removeprefix(b"'''exec' ").partition(b' "$0"')[0].strip(b"\"'")
    else:
        path = words[0] if words else b""
    folder, _, python = path.rpartition(b"/")
    if not python.startswith(b"python") or not folder or folder in _SYSTEM:
        return None
    return _HEAD % python + rest


def is_path_file(name: str) -> bool:
    """Returns whether a name is a ``.pth`` file that an interpreter reads."""
    folder, file = os.path.split(name)
    return file.endswith(".pth") and os.path.basename(folder) == "site-packages"


def path_file(found: Found, root: str, sources: dict[str, str]) -> bytes:
    """Returns the content of a ``.pth`` file in the image. Adds the outside folders that it names to ``sources``."""
    with open(found.path, encoding="utf-8", errors="surrogateescape") as file:
        lines = file.read().splitlines()
    said = [_path_line(line, found, root, sources) for line in lines]
    return "".join(line + "\n" for line in said if line).encode("utf-8", "surrogateescape")


def _path_line(line: str, found: Found, root: str, sources: dict[str, str]) -> str:
    if line.startswith(("import ", "import\t")):
        if "__editable__" in line or "finder" in line:
            package = (
                os.path.basename(found.name).removeprefix("__editable__.").removesuffix(".pth")
            )
            raise ImageError(
                f"{root} cannot be packed: {package} is installed editable through a finder, "
                "which refers to its source folder: install it without --editable, or with "
                "--config-settings editable_mode=compat"
            )
        return line
    if not line.strip() or line.startswith("#"):
        return line
    home = os.path.dirname(os.path.realpath(found.path))
    path = os.path.realpath(os.path.join(home, line.strip()))
    if path == root or path.startswith(root + os.sep):
        return os.path.relpath(path, home)
    if not os.path.isdir(path):
        return ""
    place = sources.setdefault(path, f"sources/{len(sources)}")
    return os.path.relpath(place, os.path.dirname(found.name))


def importable(path: str, place: str) -> Iterator[Found]:
    """Yields the modules and packages in a folder of sources, without other files."""

    def leaves_out(name: str) -> bool:
        top, _, below = name.partition("/")
        if below:
            return os.path.basename(name).startswith(".")
        folder = os.path.join(path, top)
        if os.path.isdir(folder):
            return not os.path.exists(os.path.join(folder, "__init__.py"))
        return not top.endswith((".py", ".so"))

    return listing.walk(path, place, leaves_out)
