"""Staging of files into and out of tasks: ``Staging``, the base class of all providers.

The providers are modules of this package: ``file_noop``, ``http``, ``ftp``, ``zip`` and ``rsync``. An executor's
``storage_access`` lists its providers; ``gristmill.parsl._kernel.data_manager`` asks them in that order.
"""

from __future__ import annotations

from collections.abc import Callable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from concurrent.futures import Future
    from typing import Any

    from gristmill.parsl._kernel.data_manager import DataManager
    from gristmill.parsl._kernel.files import File
    from gristmill.parsl._kernel.futures import DataFuture


class Staging:
    """A provider that stages nothing: the base of all others.

    A provider says which files it can stage. For each of them it may start tasks of its own that run before or after
    the app (``stage_in``, ``stage_out``), wrap the app's function (``replace_task``, ``replace_task_stage_out``), or do
    both. The file that it gets is a copy for one task, which it may change: above all, it sets the ``local_path``.
    """

    def can_stage_in(self, file: File) -> bool:
        """Returns whether this provider can bring such a file to a task. The scheme of the file usually decides."""
        return False

    def can_stage_out(self, file: File) -> bool:
        """Returns whether this provider can take such a file away from a task."""
        return False

    def stage_in(
        self, dm: DataManager, executor: str, file: File, parent_fut: Future[Any] | None
    ) -> DataFuture | None:
        """Prepares a file for a task.

        :param dm: the data manager; ``dm.dfk`` is the kernel, ``dm.dfk.executors[executor]`` the executor.
        :param executor: the label of the executor that the task will run on.
        :param file: the task's own copy.
        :param parent_fut: a future that must be final before the file can be read, if a task writes the file.
        :return: a future of ``file`` that the task has to wait for, or ``None`` if there is none.
        """
        return None

    def stage_out(
        self, dm: DataManager, executor: str, file: File, app_fu: Future[Any]
    ) -> Future[Any] | None:
        """Prepares to stage a file out; called before the task runs.

        :param app_fu: the task's future, on which every step after the task depends.
        :return: a future that is final when the file is at its destination, or ``None`` if the end of the task is
            enough.
        """
        return None

    def replace_task(
        self, dm: DataManager, executor: str, file: File, func: Callable[..., Any]
    ) -> Callable[..., Any] | None:
        """Wraps the function of a task that reads the file. ``None`` leaves the function unchanged."""
        return None

    def replace_task_stage_out(
        self, dm: DataManager, executor: str, file: File, func: Callable[..., Any]
    ) -> Callable[..., Any] | None:
        """Wraps the function of a task that writes the file. ``None`` leaves the function unchanged."""
        return None
