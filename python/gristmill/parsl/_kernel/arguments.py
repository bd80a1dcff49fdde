"""The first steps of a task's arguments: naming streams, staging files and finding futures."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gristmill import _forked
from gristmill._options import shown
from gristmill.parsl._kernel.dependencies import FUTURELESS_TYPES
from gristmill.parsl._kernel.files import is_file
from gristmill.parsl._kernel.futures import DataFuture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Future

    from gristmill.parsl._kernel.data_manager import DataManager
    from gristmill.parsl._kernel.dependencies import DependencyResolver
    from gristmill.parsl._kernel.tasks import Task, TaskRecord

#: Asks for a file in the run's folder, for ``stdout`` and ``stderr``.
AUTO_LOGNAME = -1

STREAMS = ("stdout", "stderr")
#: The argument that holds a call's resource specification; see ``executors.specification``.
SPECIFICATION = "parsl_resource_specification"


def specification_of(named: dict[str, Any]) -> dict[str, Any]:
    """Returns the resource specification of a call. Raises ``TypeError`` if it is no dict."""
    asked = named.get(SPECIFICATION)
    if asked is None:
        return {}
    if not isinstance(asked, Mapping):
        raise TypeError(f"{SPECIFICATION} must be a dict, not {shown(asked)}")
    return asked if isinstance(asked, dict) else dict(asked)


def takes(function: Callable[..., Any], name: str) -> bool:
    """Returns whether a function accepts an argument of this name. Functions without a signature accept any."""
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:
        return True
    return name in parameters or any(
        one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values()
    )


def listed(name: str, values: Any) -> list[Any]:
    """Returns the values of an argument as a list. Raises ``TypeError``, which names the argument, if it is no list."""
    if isinstance(values, (str, bytes)) or not hasattr(type(values), "__iter__"):
        raise TypeError(f"{name} must be a list, not {shown(values)}")
    return list(values)


def files_of(outputs: Any) -> list[Any]:
    """Returns the files that a call writes. Raises ``TypeError`` for anything else."""
    files = listed("outputs", outputs)
    for one in files:
        if not is_file(one):
            raise TypeError(f"outputs must be a list of Files, not one with {shown(one)}")
    return files


def all_plain(values: Iterable[Any]) -> bool:
    """Returns whether all values have types that are no files and hold no futures."""
    return FUTURELESS_TYPES.issuperset(map(type, values))


def name_streams(task: Task, name: Callable[[TaskRecord, str], Any]) -> None:
    """Gives a file to each stream that asks for one. Memoization then ignores the name of the stream."""
    for stream in STREAMS:
        if isinstance(wanted := task.kwargs.get(stream), int) and wanted == AUTO_LOGNAME:
            if stream not in task.ignore_for_cache:
                task.ignore_for_cache = [*task.ignore_for_cache, stream]
            task.kwargs[stream] = _forked.guarded(name, task.shared(), stream)


def futures_in(
    args: Iterable[Any], kwargs: dict[str, Any], resolver: DependencyResolver
) -> list[Future[Any]]:
    """Returns the futures that a call takes values from, without duplicates."""
    found: dict[int, Future[Any]] = {}
    gather = resolver.traverse_to_gather
    inputs = listed("inputs", kwargs["inputs"]) if "inputs" in kwargs else ()
    for value in (*args, *kwargs.values(), *inputs):
        for future in _forked.guarded(gather, value):
            found[id(future)] = future
    return list(found.values())


class Preparation:
    """The step that replaces files to stage by futures of these files, and that finds all futures.

    :param files: decides which files are staged, and submits the staging.
    :param resolver: finds futures in arguments.
    """

    def __init__(self, files: DataManager, resolver: DependencyResolver) -> None:
        self._files = files
        self._resolver = resolver

    def prepare(self, task: Task) -> None:
        """Changes the task's function and arguments, and sets the futures that it depends on."""
        if not task.kwargs and all_plain(task.args):
            return
        if not task.kwargs.get("_parsl_staging_inhibit", False):
            self._stage_in(task)
        self._stage_out(task)
        task.depends = futures_in(task.args, task.kwargs, self._resolver)

    def _stage_in(self, task: Task) -> None:
        def staged(value: Any) -> Any:
            value, task.func = self._files.optionally_stage_in(value, task.func, task.executor)
            return value

        named = task.kwargs
        if "inputs" in named:
            named["inputs"] = list(map(staged, listed("inputs", named["inputs"])))
        for name, value in named.items():
            if name not in STREAMS:
                named[name] = staged(value)
        task.args = tuple(map(staged, task.args))

    def _stage_out(self, task: Task) -> None:
        named, future = task.kwargs, task.app_fu
        if named.get("outputs") is not None:
            pairs = [self._stage_one_out(task, file) for file in files_of(named["outputs"])]
            named["outputs"] = [file for file, _ in pairs]
            future._outputs = [there for _, there in pairs]
        if is_file(named.get("stdout")):
            named["stdout"], future._stdout_future = self._stage_one_out(task, named["stdout"])
        if is_file(named.get("stderr")):
            named["stderr"], future._stderr_future = self._stage_one_out(task, named["stderr"])

    def _stage_one_out(self, task: Task, file: Any) -> tuple[Any, DataFuture]:
        """Returns the file for the task, and the future of the file for the program."""
        future = task.app_fu
        if task.kwargs.get("_parsl_staging_inhibit", False):
            return file, DataFuture(future, file, tid=task.id)
        # Staging may change its copy. The program's own object stays as it is.
        copy = file.cleancopy()
        staged = self._files.stage_out(copy, task.executor, future)
        there = DataFuture(staged or future, file, tid=task.id)
        task.func = self._files.replace_task_stage_out(copy, task.func, task.executor)
        return copy, there
