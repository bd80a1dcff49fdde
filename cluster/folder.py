"""The folder that all machines of a cluster see, and the removal of folders that dead runs left."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

_PREFIX = "gristmill-e2e-"


@contextlib.contextmanager
def shared_folder() -> Iterator[Path]:
    """Makes a new folder and locks it as long as this process lives, so that others know that it is in use."""
    # Not in /tmp, which each machine has for itself.
    place = Path("/var/tmp").resolve()
    _sweep(place)
    made = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
    with _locked(made) as folder:
        if not folder or not folder.exists():
            raise OSError(f"another run took {made} for a dead one's in the moment of its making")
        # A job may run under another user id than the one that made the cluster.
        folder.chmod(0o755)
        try:
            yield folder
        finally:
            shutil.rmtree(folder)


def _sweep(place: Path) -> None:
    """Removes the folders whose makers are gone."""
    for path in place.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError), _locked(path) as folder:
            if folder and folder.stat().st_uid == os.geteuid():
                shutil.rmtree(folder)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[Path | None]:
    """Locks a folder and yields it; yields ``None`` if another process holds the lock."""
    file = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        yield None
    else:
        yield path
    finally:
        os.close(file)
