"""Files of another machine, copied by ``rsync`` within the tasks that read and write them."""

from __future__ import annotations

import os

from gristmill import _forked
from gristmill.parsl._kernel.representation import RepresentationMixin
from gristmill.parsl._kernel.staging import Staging
from gristmill.parsl._kernel.staging.arrival import make_directory_of, place_in_working_directory
from gristmill.parsl._kernel.staging.fetching import FetchedFirst

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future
    from typing import Any

    from gristmill.parsl._kernel.data_manager import DataManager
    from gristmill.parsl._kernel.files import File

#: Characters of rsync's error output in a message: its last lines name the reason.
_COMPLAINT_CHARACTERS = 2000


class RSyncStaging(Staging, RepresentationMixin):
    """A provider that copies paths and ``file`` URLs between a host and workers without a shared file system.

    :param hostname: the host of the paths, as workers reach it: ``"host"``, ``"user@host"``, ``"user@[fd00::1]"``. The
        brackets may be left out.

    Each worker runs ``rsync``, which must be able to log in without a prompt, for example with a key without a
    passphrase. A task fails with ``StagingError`` if rsync fails.
    """

    def __init__(self, hostname: str) -> None:
        self.hostname = hostname

    def can_stage_in(self, file: File) -> bool:
        """Returns whether the file is a path or a ``file`` URL."""
        return file.scheme == "file"

    def can_stage_out(self, file: File) -> bool:
        """Returns whether the file is a path or a ``file`` URL."""
        return file.scheme == "file"

    def stage_in(
        self, dm: DataManager, executor: str, file: File, parent_fut: Future[Any] | None
    ) -> None:
        """Sets the path that the file will have on the worker."""
        _place(dm, executor, file)

    def stage_out(self, dm: DataManager, executor: str, file: File, app_fu: Future[Any]) -> None:
        """Sets the path on the worker that the task writes the file to."""
        _place(dm, executor, file)

    def replace_task(
        self, dm: DataManager, executor: str, file: File, func: Callable[..., Any]
    ) -> Callable[..., Any]:
        """Wraps the task's function so that the file is there when it begins."""
        return FetchedFirst(func, HostCopy(self.hostname).fetch, file)

    def replace_task_stage_out(
        self, dm: DataManager, executor: str, file: File, func: Callable[..., Any]
    ) -> Callable[..., Any]:
        """Wraps the task's function so that the file is copied to the host after it returns."""
        return StoredAfterwards(func, HostCopy(self.hostname), file)

    def __repr__(self) -> str:
        return f"RSyncStaging({self.hostname!r})"


class StoredAfterwards:
    """A function whose file is copied to a host after it returns, and not if it raises."""

    def __init__(self, func: Callable[..., Any], host: HostCopy, file: File) -> None:
        self.func = func
        self.host = host
        self.file = file
        self.__name__ = getattr(func, "__name__", type(func).__name__)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function, then copies the file."""
        make_directory_of(self.file.filepath)
        result = _forked.guarded_with(self.func, args, kwargs)
        self.host.store(self.file)
        return result


class HostCopy:
    """The copying of files from and to a host. A copy gets its name once it is complete: rsync ensures that."""

    def __init__(self, hostname: str) -> None:
        self.hostname = hostname

    def fetch(self, file: File) -> None:
        """Copies a file from the host to its local path. Raises ``StagingError``."""
        make_directory_of(file.filepath)
        _rsync(f"{_bracketed(self.hostname)}:{file.path}", _local(file))

    def store(self, file: File) -> None:
        """Copies a file from its local path to the host. Raises ``StagingError``."""
        _rsync(_local(file), f"{_bracketed(self.hostname)}:{file.path}")


def _bracketed(hostname: str) -> str:
    """Returns a host with brackets around an IPv6 address: rsync takes what follows the first colon for a path."""
    user, at, host = hostname.rpartition("@")
    return f"{user}{at}[{host}]" if ":" in host and not host.startswith("[") else hostname


def _place(dm: DataManager, executor: str, file: File) -> None:
    """Makes the file's path on the host absolute, and sets its path on the worker."""
    file.path = os.path.abspath(file.path)
    place_in_working_directory(dm, executor, file)


def _local(file: File) -> str:
    """Returns a file's local path in a form that rsync takes for a local one, even with a colon in it."""
    return os.path.join(".", file.filepath)


def _rsync(source: str, target: str) -> None:
    """Runs rsync with literal names on both sides: no shell interprets them."""
    import subprocess

    from gristmill.parsl._kernel.staging.errors import StagingError

    command = ["rsync", "--protect-args", "--", source, target]
    try:
        ended = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
    except OSError as failure:
        raise StagingError(source, target, f"rsync cannot be run: {failure}") from failure
    if ended.returncode != 0:
        complaint = ended.stderr.strip()[-_COMPLAINT_CHARACTERS:]
        raise StagingError(source, target, f"rsync returned {ended.returncode}: {complaint}")
