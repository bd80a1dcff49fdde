"""Transfer of files to tasks over a network: in a separate task that runs first, or within the task that reads them.

A separate task needs a file system that all workers of the executor share, and it fetches the file once for the task.
Within the task no file system has to be shared, and the task's own time and retries cover the transfer.
"""

from __future__ import annotations

from collections.abc import Callable

from gristmill.parsl._kernel.representation import RepresentationMixin
from gristmill.parsl._kernel.staging import Staging
from gristmill.parsl._kernel.staging.arrival import place_in_working_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from concurrent.futures import Future
    from typing import Any, ClassVar

    from gristmill.parsl._kernel.data_manager import DataManager
    from gristmill.parsl._kernel.files import File
    from gristmill.parsl._kernel.futures import DataFuture


class _Fetching(Staging, RepresentationMixin):
    """A base for providers that stage in the files of some schemes, and stage nothing out."""

    schemes: ClassVar[frozenset[str]]

    def can_stage_in(self, file: File) -> bool:
        """Returns whether the file's scheme is one of ``schemes``."""
        return file.scheme in self.schemes

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class SeparateTaskFetching(_Fetching):
    """A provider that fetches each file in a separate task, on the executor of the task that reads the file."""

    #: Called on a worker with ``outputs=[file]``; brings the file to its local path.
    fetching_task: ClassVar[staticmethod[..., None]]

    def stage_in(
        self, dm: DataManager, executor: str, file: File, parent_fut: Future[Any] | None
    ) -> DataFuture:
        """Submits the fetching task, which runs after the task that writes the file, if there is one."""
        place_in_working_directory(dm, executor, file)
        return staged_in_by(self.fetching_task, dm, executor, file, parent_fut)


class InTaskFetching(_Fetching):
    """A provider that fetches a file on the worker, right before the task that reads it."""

    #: Brings a file to its local path.
    fetch: ClassVar[staticmethod[[File], None]]

    def stage_in(
        self, dm: DataManager, executor: str, file: File, parent_fut: Future[Any] | None
    ) -> None:
        """Sets the path that the file will have."""
        place_in_working_directory(dm, executor, file)

    def replace_task(
        self, dm: DataManager, executor: str, file: File, func: Callable[..., Any]
    ) -> Callable[..., Any]:
        """Wraps the task's function so that the file is there when it begins."""
        return FetchedFirst(func, self.fetch, file)


class FetchedFirst:
    """A function that fetches a file before it runs. It can be sent to any worker that has Gristmill."""

    def __init__(self, func: Callable[..., Any], fetch: Callable[[File], None], file: File) -> None:
        self.func = func
        self.fetch = fetch
        self.file = file
        self.__name__ = getattr(func, "__name__", type(func).__name__)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Fetches the file, then calls the function."""
        self.fetch(self.file)
        return self.func(*args, **kwargs)


def staged_in_by(
    task: Callable[..., None],
    dm: DataManager,
    executor: str,
    file: File,
    parent_fut: Future[Any] | None,
    *arguments: Any,
) -> DataFuture:
    """Submits a task that writes a file to its local path, and returns the future of the file.

    The file is an output of the task, and is not staged itself.
    """
    from gristmill.parsl._kernel.apps import python_app

    app = python_app(executors=[executor], data_flow_kernel=dm.dfk)(task)
    future = app(*arguments, outputs=[file], _parsl_staging_inhibit=True, parent_fut=parent_fut)
    data_future: DataFuture = future.outputs[0]
    return data_future
