"""The sockets at which programs can be asked: one for each program, in a folder of this user.

Every program that runs an executor loads this module, and few are ever asked, so it needs hardly more than a bare
interpreter has. ``status`` has the code that answers and asks.
"""

from __future__ import annotations

import contextlib
import os
import stat
from _socket import AF_UNIX, socket

#: Variables and folders for temporary files, in the order of ``tempfile``.
_VARIABLES = ("TMPDIR", "TEMP", "TMP")
_PLACES = ("/tmp", "/var/tmp", "/usr/tmp")
#: Prefix of the name of a socket that does not accept connections yet.
_UNREADY = "."


def folder() -> str:
    """Returns the folder of the sockets, which only this user can enter."""
    place = os.environ.get("XDG_RUNTIME_DIR") or _temporary()
    return os.path.join(place, f"gristmill-{os.getuid()}")


def _temporary() -> str:
    """Returns the folder for temporary files, as ``tempfile`` does, which is slow to load."""
    named = (os.environ.get(variable) for variable in _VARIABLES)
    for place in (*named, *_PLACES):
        if place and os.path.isdir(place) and os.access(place, os.W_OK | os.X_OK):
            return os.path.abspath(place)
    return os.getcwd()


def check_folder() -> None:
    """Raises ``PermissionError`` if others could put something into the folder, ``OSError`` if there is none."""
    facts = os.lstat(folder())
    if not stat.S_ISDIR(facts.st_mode):
        why = "is not a folder"
    elif facts.st_uid != os.getuid():
        why = f"belongs to user {facts.st_uid}"
    elif facts.st_mode & 0o077:
        why = "can be entered by other users"
    else:
        return
    raise PermissionError(
        f"{folder()} {why}: the files in it are not trusted; remove it, or set XDG_RUNTIME_DIR to a folder of your own"
    )


def listen() -> tuple[socket, str]:
    """Makes the socket of this process and returns it with its path. Raises ``OSError`` if that fails.

    The path exists only once connections are accepted: a socket that refuses one counts as that of a program that
    ended.
    """
    os.makedirs(folder(), mode=0o700, exist_ok=True)
    check_folder()
    path = os.path.join(folder(), str(os.getpid()))
    unready = os.path.join(folder(), _UNREADY + str(os.getpid()))
    if os.path.lexists(unready):  # left by a process that had this number before
        os.unlink(unready)
    listener = socket(AF_UNIX)
    try:
        listener.settimeout(None)  # the program may have set a default for all sockets
        listener.bind(unready)
        listener.listen()
        # This replaces a path that was left by a process that had this number before.
        os.rename(unready, path)
    except BaseException:
        listener.close()
        raise
    return listener, path


def names() -> list[str]:
    """Returns the names in the folder that accept connections, and removes those that never will.

    Raises ``FileNotFoundError`` if there is no folder.
    """
    found = sorted(os.listdir(folder()))
    for unready in (name for name in found if name.startswith(_UNREADY)):
        if not os.path.exists(f"/proc/{unready.removeprefix(_UNREADY)}"):
            with contextlib.suppress(OSError):  # another asker may have removed it
                os.unlink(os.path.join(folder(), unready))
    return [name for name in found if not name.startswith(_UNREADY)]
