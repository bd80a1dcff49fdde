"""What happens to a task's arguments before it may wait: streams get names, files are staged, futures are found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gristmill.parsl.dependencies import FUTURELESS_TYPES
from gristmill.parsl.files import is_file
from gristmill.parsl.futures import DataFuture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Future

    from gristmill.parsl.data_manager import DataManager
    from gristmill.parsl.dependencies import DependencyResolver
    from gristmill.parsl.tasks import TaskRecord

#: Asks for a file in the run's folder, for ``stdout`` and ``stderr``.
AUTO_LOGNAME = -1

STREAMS = ("stdout", "stderr")


def all_plain(values: Iterable[Any]) -> bool:
    """Whether none of the values can be a file or hold a future."""
    return FUTURELESS_TYPES.issuperset(map(type, values))


def name_streams(task: TaskRecord, name: Callable[[TaskRecord, str], Any]) -> None:
    """Gives each stream that asks for it a file; the name then does not matter to memoization."""
    for stream in STREAMS:
        if isinstance(wanted := task.kwargs.get(stream), int) and wanted == AUTO_LOGNAME:
            if stream not in task.ignore_for_cache:
                task.ignore_for_cache = [*task.ignore_for_cache, stream]
            task.kwargs[stream] = name(task, stream)


class Preparation:
    """Puts futures of files in the place of files to be staged, and finds all futures.

    :param files: decides which files are to be staged, and submits it.
    :param resolver: finds futures in arguments.
    """

    def __init__(self, files: DataManager, resolver: DependencyResolver) -> None:
        self._files = files
        self._gather = resolver.traverse_to_gather

    def prepare(self, task: TaskRecord) -> None:
        """Changes the task's function and arguments, and sets what it depends on."""
        if not task.kwargs and all_plain(task.args):
            return
        if not task.kwargs.get("_parsl_staging_inhibit", False):
            self._stage_in(task)
        self._stage_out(task)
        task.depends = self._dependencies(task)

    def _stage_in(self, task: TaskRecord) -> None:
        def staged(value: Any) -> Any:
            value, task.func = self._files.optionally_stage_in(value, task.func, task.executor)
            return value

        named = task.kwargs
        if "inputs" in named:
            named["inputs"] = list(map(staged, named["inputs"]))
        for name, value in named.items():
            if name not in STREAMS:
                named[name] = staged(value)
        task.args = tuple(map(staged, task.args))

    def _stage_out(self, task: TaskRecord) -> None:
        named, future = task.kwargs, task.app_fu
        if named.get("outputs"):
            pairs = [self._stage_one_out(task, file) for file in named["outputs"]]
            named["outputs"] = [file for file, _ in pairs]
            future._outputs = [there for _, there in pairs]
        if is_file(named.get("stdout")):
            named["stdout"], future._stdout_future = self._stage_one_out(task, named["stdout"])
        if is_file(named.get("stderr")):
            named["stderr"], future._stderr_future = self._stage_one_out(task, named["stderr"])

    def _stage_one_out(self, task: TaskRecord, file: Any) -> tuple[Any, DataFuture]:
        """Gives the file for the task, and the future of the file for the program."""
        future = task.app_fu
        if task.kwargs.get("_parsl_staging_inhibit", False):
            return file, DataFuture(future, file, tid=task.id)
        # Staging may change its copy; the program's own object stays as it is.
        copy = file.cleancopy()
        staged = self._files.stage_out(copy, task.executor, future)
        there = DataFuture(staged or future, file, tid=task.id)
        task.func = self._files.replace_task_stage_out(copy, task.func, task.executor)
        return copy, there

    def _dependencies(self, task: TaskRecord) -> list[Future[Any]]:
        found: dict[int, Future[Any]] = {}
        for value in (*task.args, *task.kwargs.values(), *task.kwargs.get("inputs", ())):
            for future in self._gather(value):
                found[id(future)] = future
        return list(found.values())
