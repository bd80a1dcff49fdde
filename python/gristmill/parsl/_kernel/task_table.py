"""The tasks of a kernel by number, as programs see them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gristmill.parsl._kernel.tasks import Task, TaskRecord


class TaskTable(Mapping[int, "TaskRecord"]):
    """A mapping that makes the record of a task when it is looked up: most programs only count tasks.

    :param tasks: the tasks of the graph, as they are at each lookup.
    :param of_engine: the futures of the tasks that the engine runs alone.
    """

    def __init__(self, tasks: dict[int, Task], of_engine: dict[int, Any]) -> None:
        self._tasks = tasks
        self._of_engine = of_engine

    def __getitem__(self, number: int) -> TaskRecord:
        task = self._tasks.get(number)
        if task is not None:
            return task.shared()
        record: TaskRecord = self._of_engine[number].task_record
        return record

    def __iter__(self) -> Iterator[int]:
        return iter([*self._tasks, *self._of_engine])

    def __len__(self) -> int:
        return len(self._tasks) + len(self._of_engine)
