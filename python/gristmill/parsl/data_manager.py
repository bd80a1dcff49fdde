"""Asks an executor's staging providers about each file of a task, and lets the first that takes it stage it.

Any object with ``Staging``'s methods is a provider, Parsl's own among them. Files and data futures may be Parsl's too.
"""

from __future__ import annotations

from concurrent.futures import Future

from gristmill.parsl.files import PLAIN_TYPES, is_file, is_instance_of_loaded
from gristmill.parsl.staging.file_noop import NoOpFileStaging
from gristmill.parsl.staging.ftp import FTPSeparateTaskStaging
from gristmill.parsl.staging.http import HTTPSeparateTaskStaging
from gristmill.parsl.staging.zip import ZipFileStaging

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Protocol, TypeGuard

    from gristmill.parsl.files import File
    from gristmill.parsl.futures import DataFuture
    from gristmill.parsl.staging import Staging

    class Kernel(Protocol):
        """What is needed of a data-flow kernel."""

        @property
        def executors(self) -> Mapping[str, Any]:
            """The executors by their labels."""


#: The providers of every executor that names none of its own.
default_staging: list[Staging] = [
    NoOpFileStaging(),
    FTPSeparateTaskStaging(),
    HTTPSeparateTaskStaging(),
    ZipFileStaging(),
]


class DataManager:
    """Brings files to tasks and takes files away from them, by the providers of the executor that a task runs on.

    :param dfk: the kernel; providers submit their tasks to it.

    What a provider raises goes to the caller. A file that no provider takes raises ``NoStagingProvider``, a
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
        :return: what to pass instead of the argument, and what to call instead of the function.
        """
        if type(input) in PLAIN_TYPES:
            return input, func
        if is_file(input):
            file = input.cleancopy()
            replacement: File | DataFuture = file
        elif is_data_future(input):
            file = input.file_obj.cleancopy()
            # Of the copy: the staging of one task is not to be seen by another.
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
        return provider.stage_in(self, executor, file, parent_fut=parent_fut) or input

    def replace_task(
        self, file: File, func: Callable[..., Any], executor: str
    ) -> Callable[..., Any]:
        """Gives what to call instead of the function of a task that reads a file: often the function itself."""
        provider = self._provider_in(file, executor)
        return provider.replace_task(self, executor, file, func) or func

    def stage_out(self, file: File, executor: str, app_fu: Future[Any]) -> Future[Any] | None:
        """Prepares taking a file away from a task that has not been started.

        :param file: the task's own copy.
        :param app_fu: the task's future.
        :return: what is done when the file is in its place, or ``None`` if that is so as soon as the task is done.
        """
        provider = self._provider_out(file, executor)
        return provider.stage_out(self, executor, file, app_fu)

    def replace_task_stage_out(
        self, file: File, func: Callable[..., Any], executor: str
    ) -> Callable[..., Any]:
        """Gives what to call instead of the function of a task that writes a file: often the function itself."""
        provider = self._provider_out(file, executor)
        return provider.replace_task_stage_out(self, executor, file, func) or func

    def _provider_in(self, file: File, executor: str) -> Staging:
        for provider in self._providers(executor):
            if provider.can_stage_in(file):
                return provider
        raise self._refusal(file, executor, "stage")

    def _provider_out(self, file: File, executor: str) -> Staging:
        for provider in self._providers(executor):
            if provider.can_stage_out(file):
                return provider
        raise self._refusal(file, executor, "stage out")

    def _providers(self, executor: str) -> Sequence[Staging]:
        chosen: Sequence[Staging] | None = getattr(
            self.dfk.executors[executor], "storage_access", None
        )
        return default_staging if chosen is None else chosen

    def _refusal(self, file: File, executor: str, verb: str) -> Exception:
        from gristmill.parsl.staging.errors import NoStagingProvider

        return NoStagingProvider(executor, file, self._providers(executor), verb)


def is_data_future(value: Any) -> TypeGuard[DataFuture]:
    """Whether a value is the future of a file: Gristmill's, or Parsl's where a program has loaded it."""
    kind = type(value)
    return issubclass(kind, Future) and (
        is_instance_of_loaded(kind, "gristmill.parsl.futures", "DataFuture")
        or is_instance_of_loaded(kind, "parsl.app.futures", "DataFuture")
    )
