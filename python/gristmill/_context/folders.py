"""Working directories of calls. Each is made for one call and removed after it, or after the death of its worker."""

from __future__ import annotations

import os
import shutil
import tempfile

#: True once this process has searched for folders of dead processes.
_has_looked = False


def make() -> str:
    """Creates an empty folder for a call of this process."""
    global _has_looked
    parent = _parent()
    if not _has_looked:
        _has_looked = True
        _remove_forsaken(parent)
    return tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=parent)


def remove(folder: str) -> None:
    """Removes the folder of a call. What cannot be removed now is left to the cleanup of a later process."""
    shutil.rmtree(folder, ignore_errors=True)


def _parent() -> str:
    path = os.path.join(tempfile.gettempdir(), f"gristmill-calls-{os.getuid()}")
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        status = os.lstat(path)
        if status.st_uid != os.getuid() or status.st_mode & 0o170077 != 0o040000:
            # Another user owns the folder or can write to it, and could change what a call finds there.
            return tempfile.mkdtemp(prefix="gristmill-calls-")
    return path


def _remove_forsaken(parent: str) -> None:
    """Removes the folders of processes that died during a call."""
    for name in os.listdir(parent):
        owner = name.partition("-")[0]
        if owner.isdigit() and not os.path.exists(f"/proc/{owner}"):
            remove(os.path.join(parent, name))
