"""Everything that Gristmill raises of its own accord.

A task's own exception is none of these: it reaches the caller with its type, message, notes and cause.
"""

from __future__ import annotations

from _pickle import PicklingError
from concurrent.futures import BrokenExecutor


class GristmillError(Exception):
    """The base of all errors of the engine."""


class StartError(GristmillError, BrokenExecutor):
    """The workers could not be started: the interpreter is missing, an import or the initializer failed.

    The message holds the last lines that the process wrote to its standard error.
    """


class ShutDownError(GristmillError, RuntimeError):
    """The executor was shut down and takes no new tasks."""


class ForkedProcessError(GristmillError, RuntimeError):
    """The executor was used in a forked child of the process that made it."""


class LimitReached(GristmillError):
    """More tasks are outstanding than the executor's limit allows."""


class LeaseExpired(GristmillError):
    """The lease was over before the task had ended."""


class ResourceError(GristmillError, ValueError):
    """A task needs more cores, memory or GPUs than the executor has."""


class UnpicklableError(GristmillError, PicklingError, TypeError):
    """A function or an argument cannot be sent to another process; the message names the offending part."""


class WorkerLost(GristmillError):
    """The worker died while it ran the task: by a signal, by lack of memory, by ``os._exit``.

    The message says which task, which worker, which signal or exit code, and the worker's last lines of standard error.
    """


class ContextError(GristmillError):
    """The context that a task needs cannot be set up, or is not where it is used.

    The message names the context and the step, and holds the last lines that the process wrote to its standard error.
    """


class TaskTimeout(GristmillError, TimeoutError):
    """The task ran longer than its ``timeout``, or had not started when its ``deadline`` passed."""


class DependencyFailed(GristmillError):
    """A task among the arguments gave no value; the cause is what happened to it."""


class RemoteError(GristmillError):
    """A task raised an exception, or returned a value, that cannot be sent between processes.

    ``type_name`` is the original type's qualified name; the traceback is that of the worker.
    """

    def __init__(self, message: str, type_name: str = "") -> None:
        super().__init__(message, type_name)
        self.type_name = type_name

    def __str__(self) -> str:
        return str(self.args[0])


class RemoteTraceback(Exception):
    """Carries the worker's traceback as text; it is the innermost cause of an exception that a task raised."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'


class ImageError(GristmillError):
    """An environment cannot be made an image, or an image cannot be used; the message says which, and at what step."""


class AlteredImage(ImageError):
    """The bytes of an image are not those that its name says: it was cut off or changed on its way, or on the disk."""


class StaleModule(GristmillError):
    """A module was edited after the caller imported it, and the worker sees another version of the function."""
