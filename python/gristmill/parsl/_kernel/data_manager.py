"""The choice of a staging provider: the first provider of an executor that accepts a file stages it.

A provider is any object with the methods of ``Staging``; Parsl's own providers are. Files and data futures may be
Parsl's too.
"""

from __future__ import annotations

from concurrent.futures import Future

from gristmill import _forked
from gristmill.parsl._kernel.files import PLAIN_TYPES, is_file, is_instance_of_loaded
from gristmill.parsl._kernel.staging.file_noop import NoOpFileStaging
from gristmill.parsl._kernel.staging.ftp import FTPSeparateTaskStaging
from gristmill.parsl._kernel.staging.http import HTTPSeparateTaskStaging
from gristmill.parsl._kernel.staging.zip import ZipFileStaging

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Protocol, TypeGuard

    from gristmill.parsl._kernel.files import File
    from gristmill.parsl._kernel.futures import DataFuture
    from gristmill.parsl._kernel.staging import Staging

    class Kernel(Protocol):
        """The part of a data-flow kernel that staging needs."""

        @property
        def executors(self) -> Mapping[str, Any]:
            """Returns the executors by their labels."""


#: The providers of every executor that names none of its own.
default_staging: list[Staging] = [
    NoOpFileStaging(),
    FTPSeparateTaskStaging(),
    HTTPSeparateTaskStaging(),
    ZipFileStaging(),
]


class DataManager:
    """Staging of files into and out of tasks, through the providers of the executor that runs the task.

    :param dfk: the kernel; providers submit their tasks to it.

    Exceptions of a provider propagate to the caller. A file that no provider accepts raises ``NoStagingProvider``, a
    ``ValueError``.
    """

    def __init__(self, dfk: Kernel) -> None:
        self.dfk = dfk

    def optionally_stage_in(
        self, input: Any, func: Callable[..., Any], executor: str
    ) -> tuple[Any, Callable[..., Any]]:
        """Stages an argument in, if it is a file or the future of one.

        :param input: the argument. It stays as it is; the task gets a copy.
        :param func: the task's function.
        :param executor: the label of the executor that the task will run on.
        :return: the replacement of the argument, and the replacement of the function.
        """
        if type(input) in PLAIN_TYPES:
            return input, func
        if is_file(input):
            file = input.cleancopy()
            replacement: File | DataFuture = file
        elif is_data_future(input):
            file = input.file_obj.cleancopy()
            # The future holds the copy: other tasks must not see the staging of this task.
            replacement = type(input)(input, file, tid=input.tid)
        else:
            return input, func
        replacement = self.stage_in(file, replacement, executor)
        return replacement, self.replace_task(file, func, executor)

    def stage_in(self, file: File, input: File | DataFuture, executor: str) -> Any:
        """Stages a file in.

        :param file: the task's own copy.
        :param input: the same file, or the future of it.
        :return: a future of the file that the task has to wait for, or ``input`` if there is nothing to do first.
        """
        parent_fut = input if isinstance(input, Future) else None
        provider = self._provider_in(file, executor)
        arguments = (self, executor, file)
        named = {"parent_fut": parent_fut}
        return _forked.guarded_with(provider.stage_in, arguments, named) or input

    def replace_task(
        self, file: File, func: Callable[..., Any], executor: str
    ) -> Callable[..., Any]:
        """Returns the replacement for the function of a task that reads a file. It is often the function itself."""
        provider = self._provider_in(file, executor)
        return _forked.guarded(provider.replace_task, self, executor, file, func) or func

    def stage_out(self, file: File, executor: str, app_fu: Future[Any]) -> Future[Any] | None:
        """Prepares to stage a file out of a task that has not started.

        :param file: the task's own copy.
        :param app_fu: the task's future.
        :return: a future that is final when the file is at its destination, or ``None`` if the end of the task is
            enough.
        """
        provider = self._provider_out(file, executor)
        return _forked.guarded(provider.stage_out, self, executor, file, app_fu)

    def replace_task_stage_out(
        self, file: File, func: Callable[..., Any], executor: str
    ) -> Callable[..., Any]:
        """Returns the replacement for the function of a task that writes a file. It is often the function itself."""
        provider = self._provider_out(file, executor)
        replace = provider.replace_task_stage_out
        return _forked.guarded(replace, self, executor, file, func) or func

    def _provider_in(self, file: File, executor: str) -> Staging:
        for provider in self._providers(executor):
            if _forked.guarded(provider.can_stage_in, file):
                return provider
        raise self._refusal(file, executor, "stage")

    def _provider_out(self, file: File, executor: str) -> Staging:
        for provider in self._providers(executor):
            if _forked.guarded(provider.can_stage_out, file):
                return provider
        raise self._refusal(file, executor, "stage out")

    def _providers(self, executor: str) -> Sequence[Staging]:
        chosen: Sequence[Staging] | None = getattr(
            self.dfk.executors[executor], "storage_access", None
        )
        return default_staging if chosen is None else chosen

    def _refusal(self, file: File, executor: str, verb: str) -> Exception:
        from gristmill.parsl._kernel.staging.errors import NoStagingProvider

        return NoStagingProvider(executor, file, self._providers(executor), verb)


def is_data_future(value: Any) -> TypeGuard[DataFuture]:
    """Returns whether a value is the future of a file: Gristmill's, or Parsl's where a program has loaded it."""
    kind = type(value)
    return issubclass(kind, Future) and (
        is_instance_of_loaded(kind, "gristmill.parsl._kernel.futures", "DataFuture")
        or is_instance_of_loaded(kind, "parsl.app.futures", "DataFuture")
    )
