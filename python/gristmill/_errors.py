"""Exceptions that Gristmill itself raises.

A task's own exception is none of these: it reaches the caller with its type, message, notes and cause.
"""

from __future__ import annotations

import sys
from _pickle import PicklingError
from concurrent.futures import BrokenExecutor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class GristmillError(Exception):
    """The base of all errors of the engine.

    ``code`` names the failure and stays the same in later versions, unlike the message. An instance may have a finer
    code than its class. The reference lists all of them.
    """

    code: str = "gristmill_error"


class StartError(GristmillError, BrokenExecutor):
    """Failure to start the workers: the interpreter is missing, or an import or the initializer failed.

    The message holds the last lines that the process wrote to its standard error.
    """

    code = "start_failed"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        _join_errors_of_pools()


class ShutDownError(GristmillError, RuntimeError):
    """Use of an executor that was shut down and takes no new tasks."""

    code = "shut_down"


class ForkedProcessError(GristmillError, RuntimeError):
    """Use of an executor in a forked child of the process that made it."""

    code = "forked_process"


class LimitReachedError(GristmillError):
    """Submission of more outstanding tasks than the executor's limit allows."""

    code = "limit_reached"


class LeaseExpiredError(GristmillError):
    """End of the lease before the task had ended."""

    code = "lease_expired"


class ResourceError(GristmillError, ValueError):
    """Request of a task for more cores, memory or GPUs than the executor has, or of a lease for more than is here."""

    code = "resources_exceeded"


class UnpicklableError(GristmillError, PicklingError, TypeError):
    """Failure to send a function or an argument to another process. The message names the offending part."""

    code = "unpicklable"


class WorkerLostError(GristmillError, BrokenExecutor):
    """Death of a worker while it ran the task: by a signal, by lack of memory, or by ``os._exit``.

    The message names the task, the worker, and the signal or exit code, and holds the worker's last lines of standard
    error. It is a ``concurrent.futures.BrokenExecutor``, and in programs that import that class a
    ``BrokenProcessPool``; the executor goes on.
    """

    code = "worker_lost"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        _join_errors_of_pools()


def _join_errors_of_pools() -> None:
    """Makes errors about workers subclasses of ``BrokenProcessPool`` too, which programs may catch.

    Only programs that have loaded its module can name that class. Loading it here would load ``multiprocessing``.
    """
    pools: Any = sys.modules.get("concurrent.futures.process")
    error = getattr(pools, "BrokenProcessPool", None)
    for ours in (StartError, WorkerLostError):
        # Read once: another thread may be doing the same.
        bases = ours.__bases__
        if error is not None and error not in bases:
            place = bases.index(BrokenExecutor)
            ours.__bases__ = (*bases[:place], error, *bases[place:])


class ContextError(GristmillError):
    """Failure to set up the context that a task needs, or absence of the context where it is used.

    The message names the context and the step, and holds the last lines that the process wrote to its standard error.
    """

    code = "context_failed"


class TaskTimeoutError(GristmillError, TimeoutError):
    """Timeout of a task that ran longer than its ``timeout``, or had not started after its ``start_within``."""

    code = "task_timeout"


class DependencyError(GristmillError):
    """Failure of a task because a task among its arguments gave no value. The cause says what happened to that task."""

    code = "dependency_failed"


class RemoteError(GristmillError):
    """Stand-in for an exception or a return value of a task that cannot be sent between processes.

    ``type_name`` is the qualified name of the original type. The traceback is that of the worker.
    """

    code = "remote_error"

    def __init__(self, message: str, type_name: str = "") -> None:
        super().__init__(message, type_name)
        self.type_name = type_name

    def __str__(self) -> str:
        return str(self.args[0])


class RemoteTraceback(Exception):
    """Carrier of the worker's traceback as text. It is the innermost cause of an exception that a task raised."""

    code: str = "remote_traceback"

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    @property
    def tb(self) -> str:
        """The text, by the name that it has in the standard library's process pool."""
        return self.text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'


class LibraryError(GristmillError):
    """Failure to load a library of native functions, or absence of a function there. The message names both."""

    code = "library_failed"


class NativeError(GristmillError):
    """Failure that a native function reports. ``status`` is what it returned; the message holds its text."""

    code = "native_failed"

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message, status)
        self.status = status

    def __str__(self) -> str:
        return str(self.args[0])


class ImageError(GristmillError):
    """Failure to make an image of an environment, or to use an image. The message names the image and the step."""

    code = "image_failed"


class AlteredImageError(ImageError):
    """Mismatch between the bytes of an image and its name: the image was cut off or changed in transit or on disk."""

    code = "image_altered"


class StaleModuleError(GristmillError):
    """Difference between a module of the caller and that of a worker.

    The module was edited after the caller imported it, or the worker's node has another version of it. The message says
    which, and names the node.
    """

    code = "stale_module"

    #: The facts that complete the message in the submitting process; see ``_stale``.
    _difference: tuple[str, str, str, str | None, bytes | None] | None = None
