"""The data-flow kernel: it takes calls of apps, finds what they depend on, and submits them to executors."""

from __future__ import annotations

import atexit
import logging
import os
import time
import uuid
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Any

from gristmill import _forked, _native
from gristmill._errors import ForkedProcessError
from gristmill._options import shown
from gristmill.parsl._kernel.arguments import (
    SPECIFICATION,
    Preparation,
    name_streams,
    specification_of,
    takes,
)
from gristmill.parsl._kernel.choice import chooser
from gristmill.parsl._kernel.counts import count_states
from gristmill.parsl._kernel.dependencies import DEEP_DEPENDENCY_RESOLVER
from gristmill.parsl._kernel.executor_registry import INTERNAL, ExecutorRegistry, refuse_used
from gristmill.parsl._kernel.fast_paths import FastPaths
from gristmill.parsl._kernel.fetched_bytes import FetchedBytes
from gristmill.parsl._kernel.futures import AppFuture, DataFuture, GraphFuture
from gristmill.parsl._kernel.graph import Graph
from gristmill.parsl._kernel.memo_fast_path import MemoFastPath
from gristmill.parsl._kernel.monitoring.attach import attach
from gristmill.parsl._kernel.monitoring.workflow import name_workflow
from gristmill.parsl._kernel.run_folder import make_run_folder, start_logging
from gristmill.parsl._kernel.states import States
from gristmill.parsl._kernel.task_log import TaskLog, is_wanted
from gristmill.parsl._kernel.task_table import TaskTable
from gristmill.parsl._kernel.tasks import Task
from gristmill.parsl._kernel.usage import UsageTracker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from gristmill._context.declare import Context
    from gristmill.parsl._kernel.config import Config
    from gristmill.parsl._kernel.tasks import TaskRecord

_log = logging.getLogger("parsl.gristmill.kernel")


class DataFlowKernel:
    """A kernel that runs tasks on the executors of a configuration, each once the futures it depends on are final.

    It is usually made by ``gristmill.parsl.load``. As a context manager it ends as ``Config.exit_mode`` says.

    :param config: the executors and options.

    Raises ``TypeError`` for an object that is no configuration, and ``ConfigurationError`` for an executor that another
    kernel uses.
    """

    def __init__(self, config: Config) -> None:
        from gristmill._native import Ledger
        from gristmill.parsl._kernel.data_manager import DataManager
        from gristmill.parsl._kernel.memoization import BasicMemoizer

        if not hasattr(config, "executors") or not hasattr(config, "run_dir"):
            raise TypeError(f"config must be a Config, not {shown(config)}")
        refuse_used(config.executors)
        self.cleanup_called = False
        self._generation = _native.generation()
        self._config = config
        self.run_dir = make_run_folder(config.run_dir)
        self.run_id = str(uuid.uuid4())
        self._stop_logging = start_logging(config.initialize_logging, self.run_dir)
        is_log_config = not isinstance(config.initialize_logging, bool)
        self.log_config = config.initialize_logging if is_log_config else None
        # Logged as a text: a handler that keeps records would otherwise keep the executors alive.
        _log.info("starting a data-flow kernel, run %s, with %s", self.run_id, repr(config))
        self.monitoring = config.monitoring
        self.usage_tracker = UsageTracker()
        self.workflow_name, self.workflow_version = name_workflow(config.monitoring)
        self.memoizer = config.memoizer if config.memoizer is not None else BasicMemoizer()
        folders = {"run_dir": self.run_dir, "config_run_dir": config.run_dir}
        _forked.guarded_with(self.memoizer.start, (), folders)
        self._registry = ExecutorRegistry(self)
        self.executors = self._registry.by_label
        self.data_manager = DataManager(self)
        self.dependency_resolver = config.dependency_resolver or DEEP_DEPENDENCY_RESOLVER
        self.ledger = Ledger()
        self.fetched_bytes = FetchedBytes(self.ledger)
        self._graph = Graph(
            config,
            self.executors,
            self.memoizer,
            self.dependency_resolver,
            self.render_future_description,
        )
        kind = getattr(config, "executor_choice", "least_loaded")
        self._choose = chooser(kind, self.executors, self._graph.task_states.outstanding)
        self._log: TaskLog | None = None
        if is_wanted(has_log_config=is_log_config):
            self._log = TaskLog(self.run_id)
            self._graph.task_states.observers.append(self._log.moved)
        self._monitor = self._graph.monitor = attach(self)
        if self._monitor is not None:
            self._graph.task_states.observers.append(self._monitor.moved)
        watch = self._monitor.watch if self._monitor is not None else None
        is_observed = self._log is not None or (self._monitor is not None and watch is None)
        self.fast_paths = FastPaths(self, is_observed, watch)
        self.memo_fast_path = MemoFastPath(
            self, is_observed=bool(self._graph.task_states.observers)
        )
        self._preparation = Preparation(self.data_manager, self.dependency_resolver)
        try:
            self._start_executors()
        except BaseException:
            self._end_parts()
            raise
        atexit.register(self.atexit_cleanup)

    def _start_executors(self) -> None:
        from gristmill.parsl._kernel.executors.threads import ThreadPoolExecutor

        internal = ThreadPoolExecutor(
            label=INTERNAL, max_threads=self._config.internal_tasks_max_threads
        )
        self.add_executors(self._config.executors)
        self.add_executors([internal])

    def refuse_forked(self) -> None:
        """Raises ``ForkedProcessError`` in a fork of the kernel's process, which has none of the kernel's threads."""
        if _native.generation() != self._generation:
            text = (
                "this kernel belongs to the parent process: a forked child has no threads and no "
                "workers of it; load a new one in the child"
            )
            raise ForkedProcessError(text)

    @property
    def config(self) -> Config:
        """The configuration that this kernel was made from."""
        return self._config

    @property
    def tasks(self) -> Mapping[int, TaskRecord]:
        """The tasks that are not final, by number; all tasks with ``garbage_collect=False``."""
        living: list[Any] = list(self.ledger.living())
        return TaskTable(self._graph.task_states.tasks, {future.tid: future for future in living})

    @property
    def task_count(self) -> int:
        """The number of tasks that were submitted."""
        return self.ledger.count

    @property
    def task_state_counts(self) -> dict[States, int]:
        """The number of tasks in each state."""
        return count_states(
            self._graph.task_states.counts,
            self._registry.engine_stats(),
            self._graph.task_states.engine_attempts,
        )

    def add_executors(self, executors: Sequence[Any]) -> None:
        """Starts more executors. Calls may name them from now on."""
        announce = None if self._monitor is None else self._monitor.add_executor
        self._registry.add(executors, announce)
        self.fast_paths.reopen()

    @property
    def job_status_poller(self) -> Any:
        """The poller that scales the blocks of Parsl's own executors; ``None`` if there are no such executors."""
        return self._registry.poller

    def submit(
        self,
        func: Callable[..., Any],
        app_args: Sequence[Any],
        executors: str | Sequence[str],
        cache: bool,
        ignore_for_cache: Sequence[str] | None,
        app_kwargs: dict[str, Any],
        join: bool = False,
        context: Context | None = None,
    ) -> AppFuture:
        """Submits one call of an app.

        :param func: the function that the executor calls.
        :param app_args: its positional arguments.
        :param executors: ``"all"``, or labels to choose from.
        :param cache: whether the result is remembered and reused.
        :param ignore_for_cache: named arguments that the cache ignores.
        :param app_kwargs: its named arguments.
        :param join: whether the function returns a future, or a list of futures, whose values are the task's value.
        :param context: the context of the call, if the call does not name another one.

        Blocks in the program's own threads while ``Config.task_limit`` tasks are outstanding; see ``back_pressure``.
        Raises ``NoDataFlowKernelError`` after ``cleanup``, ``ValueError`` for ``executors`` of another kind, and
        ``ForkedProcessError`` in a forked child.
        """
        self.refuse_forked()
        self._graph.task_states.back_pressure.wait_for_room()
        if self.cleanup_called:
            from gristmill.parsl._kernel.errors import NoDataFlowKernelError

            raise NoDataFlowKernelError("Cannot submit to a DFK that has been cleaned up")
        asked = specification_of(app_kwargs)
        if SPECIFICATION in app_kwargs and not takes(func, SPECIFICATION):
            # The kernel interprets this argument. Only functions with such a parameter see it.
            app_kwargs = {
                name: value for name, value in app_kwargs.items() if name != SPECIFICATION
            }
        task = Task(
            id=self.ledger.next(),
            dfk=self,
            executor=self._label(executors),
            func=func,
            func_name=getattr(func, "__name__", type(func).__name__),
            args=app_args,
            kwargs=app_kwargs,
            memoize=cache,
            ignore_for_cache=ignore_for_cache or (),
            join=join,
            time_invoked=time.time(),
            resource_specification=asked if context is None else {"context": context, **asked},
        )
        future = task.app_fu = GraphFuture(task)
        if app_kwargs:
            name_streams(task, self._config.std_autopath or self.default_std_autopath)
        with self._graph.task_states.back_pressure.inside_a_call():
            self._preparation.prepare(task)
        if self._log is not None:
            self._log.submitted(task)
        self._graph.add(task)
        return future

    def _label(self, executors: str | Sequence[str]) -> str:
        labels = self.labels(executors)
        if not labels:
            raise ValueError("executors must have the label of at least one executor")
        return labels[0] if len(labels) == 1 else self._choose(labels)

    def count_recalled(self) -> int:
        """Counts a task whose result was remembered, and returns its number."""
        self._graph.task_states.count_recalled()
        return self.ledger.next()

    def labels(self, executors: str | Sequence[str]) -> Sequence[str]:
        """Returns the labels that an app's ``executors`` stands for.

        Raises ``ValueError`` for anything but a list or ``"all"``.
        """
        return self._registry.labels(executors)

    def cancel_task(self, task: Task, running: bool, grace: float) -> bool:
        """Cancels a task if that is possible; see ``AppFuture.cancel``. Raises ``ForkedProcessError``."""
        self.refuse_forked()
        return self._graph.cancel(task, running, grace)

    def explain(self, future: Future[Any]) -> str:
        """Explains why the task of a future does not run yet, or where it is, in a few sentences.

        Raises ``TypeError`` if the future is not one of this kernel's.
        """
        from gristmill.parsl._kernel.explanations import Explanations

        return Explanations(self, self.executors, self.render_future_description).of(future)

    @staticmethod
    def check_staging_inhibited(kwargs: dict[str, Any]) -> bool:
        """Returns whether a call with these named arguments was made by a staging provider."""
        return bool(kwargs.get("_parsl_staging_inhibit", False))

    def launch_if_ready(self, task_record: TaskRecord) -> None:
        """Does nothing: the kernel launches a task as soon as it is ready."""

    def default_std_autopath(self, taskrecord: Mapping[str, Any], kw: str) -> str:
        """Returns the path for a standard stream that was requested as ``AUTO_LOGNAME``."""
        label = taskrecord["kwargs"].get("label")
        suffix = "" if label is None else f"_{label}"
        number, name = taskrecord["id"], taskrecord["func_name"]
        folder = os.path.join(self.run_dir, "task_logs", f"{number // 10000:04}")
        return os.path.join(folder, f"task_{number:04}_{name}{suffix}.{kw}")

    def render_future_description(self, dep: Future[Any]) -> str:
        """Describes a future in a few words, for example ``task 3``."""
        if isinstance(dep, AppFuture) and dep._kernel is self:
            return f"task {dep.tid}"
        if isinstance(dep, DataFuture):
            return f"DataFuture from task {dep.tid}"
        return repr(dep)

    def log_task_states(self) -> None:
        """Logs how many tasks are in each state."""
        _log.info("Summary of tasks in DFK:")
        for state, count in self.task_state_counts.items():
            _log.info("Tasks in state %s: %s", state, count)

    def wait_for_current_tasks(self) -> None:
        """Waits until every task that exists now is final."""
        futures = [task.app_fu for task in list(self._graph.task_states.tasks.values())]
        # A task whose future is gone was final.
        wait([future for future in futures if future is not None])
        self._registry.wait_for_engines()
        self.memo_fast_path.wait()

    def cleanup(self) -> None:
        """Ends the executors, the memoizer and everything else. An executor finishes its tasks or drops them.

        Raises ``RuntimeError`` when called twice.
        """
        if self.cleanup_called:
            raise RuntimeError("attempt to clean up DFK when it has already been cleaned-up")
        self.cleanup_called = True
        self._graph.task_states.back_pressure.close()
        self.fast_paths.close()
        self.log_task_states()
        atexit.unregister(self.atexit_cleanup)
        for loader in _loaders():
            if loader._dfk is self:
                loader.clear()
        failures = self._end_parts()
        if failures:
            raise failures[0]

    def _end_parts(self) -> list[Exception]:
        """Ends all parts, even if some of them raise. Returns these exceptions."""
        ends = [self.memoizer.close, *self._registry.ends(), self.memo_fast_path.close]
        if self._monitor is not None:
            ends.append(self._monitor.close)
        failures = []
        for end in ends:
            try:
                _forked.guarded(end)
            except Exception as failure:
                _log.exception("%r failed", end)
                failures.append(failure)
        _log.info("the data-flow kernel has ended")
        if self._stop_logging is not None:
            self._stop_logging()
        return failures

    def atexit_cleanup(self) -> None:
        """Warns that the program ends without ``cleanup``."""
        _log.warning("Python is exiting with a DFK still running: call dfk().cleanup() before")

    def __enter__(self) -> DataFlowKernel:
        return self

    def __exit__(self, exc_type: object, exc_value: object, traceback: object) -> None:
        mode = self._config.exit_mode
        if mode == "wait" and exc_type is None:
            self.wait_for_current_tasks()
        if mode != "skip":
            self.cleanup()


def _loaders() -> Iterator[Any]:
    import sys

    from gristmill.parsl._kernel.loader import DataFlowKernelLoader

    yield DataFlowKernelLoader
    theirs = sys.modules.get("parsl.dataflow.dflow")
    if theirs is not None:
        yield theirs.DataFlowKernelLoader
