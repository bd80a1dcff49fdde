"""How files come to a task and leave it: ``Staging``, what every provider derives from.

The providers are modules of this package: ``file_noop``, ``http``, ``ftp``, ``zip`` and ``rsync``. Which of them serve
an executor is the executor's ``storage_access``; ``gristmill.parsl.data_manager`` asks them in that order.
"""

from __future__ import annotations

from collections.abc import Callable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from concurrent.futures import Future
    from typing import Any

    from gristmill.parsl.data_manager import DataManager
    from gristmill.parsl.files import File
    from gristmill.parsl.futures import DataFuture


class Staging:
    """A provider that stages nothing: the beginning of every other.

    A provider says which files it can stage; for each of them it may start tasks of its own that run before or after
    the app (``stage_in``, ``stage_out``), wrap the app's function (``replace_task``, ``replace_task_stage_out``), or
    both. The file it is given is a copy for one task, which it may change: above all, set its ``local_path``.
    """

    def can_stage_in(self, file: File) -> bool:
        """Whether this provider brings such a file to a task; its scheme mostly decides."""
        return False

    def can_stage_out(self, file: File) -> bool:
        """Whether this provider takes such a file away from a task."""
        return False

    def stage_in(
        self, dm: DataManager, executor: str, file: File, parent_fut: Future[Any] | None
    ) -> DataFuture | None:
        """Prepares a file for a task.

        :param dm: the data manager; ``dm.dfk`` is the kernel, ``dm.dfk.executors[executor]`` the executor.
        :param executor: the label of the executor that the task will run on.
        :param file: the task's own copy.
        :param parent_fut: what must be done before the file can be read, if a task writes it.
        :return: a future of ``file`` that the task has to wait for, or ``None`` if there is none.
        """
        return None

    def stage_out(
        self, dm: DataManager, executor: str, file: File, app_fu: Future[Any]
    ) -> Future[Any] | None:
        """Prepares taking a file away; called before the task runs.

        :param app_fu: the task's future, which everything that is to happen after the task depends on.
        :return: a future that is done when the file is in its place, or ``None`` if that is when the task is done.
        """
        return None

    def replace_task(
        self, dm: DataManager, executor: str, file: File, func: Callable[..., Any]
    ) -> Callable[..., Any] | None:
        """Wraps the function of a task that reads the file; ``None`` leaves it as it is."""
        return None

    def replace_task_stage_out(
        self, dm: DataManager, executor: str, file: File, func: Callable[..., Any]
    ) -> Callable[..., Any] | None:
        """Wraps the function of a task that writes the file; ``None`` leaves it as it is."""
        return None
