"""The data-flow kernel: takes calls of apps, finds what they depend on, and gives them to executors."""

from __future__ import annotations

import atexit
import logging
import os
import time
import uuid
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Any

from gristmill.parsl.arguments import Preparation, name_streams
from gristmill.parsl.choice import chooser
from gristmill.parsl.counts import count_states
from gristmill.parsl.dependencies import DEEP_DEPENDENCY_RESOLVER
from gristmill.parsl.executors.engine import GristmillExecutor
from gristmill.parsl.futures import AppFuture, DataFuture, GraphFuture
from gristmill.parsl.graph import Graph
from gristmill.parsl.lanes import Lanes
from gristmill.parsl.monitoring.attach import attach
from gristmill.parsl.recall import Recall
from gristmill.parsl.roster import INTERNAL, Roster
from gristmill.parsl.run_folder import make_run_folder, start_logging
from gristmill.parsl.states import States
from gristmill.parsl.task_log import TaskLog, is_wanted
from gristmill.parsl.tasks import TaskRecord
from gristmill.parsl.walltime import unlimited

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from gristmill._context.declare import Context
    from gristmill.parsl.config import Config

_log = logging.getLogger("parsl.gristmill.kernel")


class DataFlowKernel:
    """Runs tasks on the executors of a configuration, each once what it depends on is final.

    Usually made by ``gristmill.load``. As a context manager it ends as ``Config.exit_mode`` says.

    :param config: what to run on and how.
    """

    def __init__(self, config: Config) -> None:
        from gristmill._native import Ledger
        from gristmill.parsl.data_manager import DataManager
        from gristmill.parsl.memoization import BasicMemoizer

        self.cleanup_called = False
        self._config = config
        self.run_dir = make_run_folder(config.run_dir)
        self.run_id = str(uuid.uuid4())
        self._stop_logging = start_logging(config.initialize_logging, self.run_dir)
        is_log_config = not isinstance(config.initialize_logging, bool)
        self.log_config = config.initialize_logging if is_log_config else None
        _log.info("starting a data-flow kernel, run %s, with %r", self.run_id, config)
        self.monitoring = config.monitoring
        self.memoizer = config.memoizer if config.memoizer is not None else BasicMemoizer()
        self.memoizer.start(run_dir=self.run_dir, config_run_dir=config.run_dir)
        self._roster = Roster(self)
        self.executors = self._roster.by_label
        self.data_manager = DataManager(self)
        self.dependency_resolver = config.dependency_resolver or DEEP_DEPENDENCY_RESOLVER
        self.ledger = Ledger()
        self._graph = Graph(
            config,
            self.executors,
            self.memoizer,
            self.dependency_resolver,
            self.render_future_description,
        )
        kind = getattr(config, "executor_choice", "least_loaded")
        self._choose = chooser(kind, self.executors, self._graph.census.outstanding)
        self._log: TaskLog | None = None
        if is_wanted(has_log_config=is_log_config):
            self._log = TaskLog(self.run_id)
            self._graph.census.observers.append(self._log.moved)
        self._monitor = self._graph.monitor = attach(self)
        if self._monitor is not None:
            self._graph.census.observers.append(self._monitor.moved)
        watch = self._monitor.watch if self._monitor is not None else None
        is_observed = self._log is not None or (self._monitor is not None and watch is None)
        self.lanes = Lanes(self, is_observed, watch)
        self.recall = Recall(self, is_observed=bool(self._graph.census.observers))
        self._preparation = Preparation(self.data_manager, self.dependency_resolver)
        try:
            self._start_executors()
        except BaseException:
            self._end_parts()
            raise
        atexit.register(self.atexit_cleanup)

    def _start_executors(self) -> None:
        from gristmill.parsl.executors.threads import ThreadPoolExecutor

        internal = ThreadPoolExecutor(
            label=INTERNAL, max_threads=self._config.internal_tasks_max_threads
        )
        self.add_executors(self._config.executors)
        self.add_executors([internal])

    @property
    def config(self) -> Config:
        """The configuration this kernel was made from."""
        return self._config

    @property
    def tasks(self) -> Mapping[int, TaskRecord]:
        """The tasks that are not final, by number; all of them with ``garbage_collect=False``."""
        living: list[Any] = list(self.ledger.living())
        of_engine = {future.tid: future.task_record for future in living}
        return {**self._graph.census.tasks, **of_engine} if of_engine else self._graph.census.tasks

    @property
    def task_count(self) -> int:
        """How many tasks were submitted."""
        return self.ledger.count

    @property
    def task_state_counts(self) -> dict[States, int]:
        """How many tasks are in which state."""
        return count_states(
            self._graph.census.counts,
            self._roster.engine_stats(),
            self._graph.census.engine_attempts,
        )

    def add_executors(self, executors: Sequence[Any]) -> None:
        """Starts more executors; calls may name them from now on."""
        announce = None if self._monitor is None else self._monitor.add_executor
        self._roster.add(executors, announce)
        self.lanes.reopen()

    @property
    def job_status_poller(self) -> Any:
        """What scales the blocks of Parsl's own executors; ``None`` if there are none of these."""
        return self._roster.poller

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

        :param func: what the executor is to call.
        :param app_args: its positional arguments.
        :param executors: ``"all"``, or labels to choose from.
        :param cache: whether the result is to be remembered and reused.
        :param ignore_for_cache: named arguments that do not matter for that.
        :param app_kwargs: its named arguments.
        :param join: whether the value is a future, or a list of some, whose values are the real one.
        :param context: what the call runs in, if it asks for no other one itself.

        Waits in the program's own threads while ``Config.task_limit`` tasks are outstanding; see ``back_pressure``.
        Raises ``NoDataFlowKernelError`` after ``cleanup``, ``ValueError`` for ``executors`` of another kind.
        """
        self._graph.census.back_pressure.wait_for_room()
        if self.cleanup_called:
            from gristmill.parsl.errors import NoDataFlowKernelError

            raise NoDataFlowKernelError("Cannot submit to a DFK that has been cleaned up")
        asked = app_kwargs.get("parsl_resource_specification", {})
        task = TaskRecord(
            id=self.ledger.next(),
            dfk=self,
            executor=self._label(executors),
            func=func,
            func_name=func.__name__,
            args=app_args,
            kwargs=app_kwargs,
            memoize=cache,
            ignore_for_cache=ignore_for_cache or (),
            join=join,
            time_invoked=time.time(),
            resource_specification=asked if context is None else {"context": context, **asked},
        )
        self._let_engine_limit(task)
        future = task.app_fu = GraphFuture(task)
        if app_kwargs:
            name_streams(task, self._config.std_autopath or self.default_std_autopath)
        with self._graph.census.back_pressure.inside_a_call():
            self._preparation.prepare(task)
        if self._log is not None:
            self._log.submitted(task)
        self._graph.add(task)
        return future

    def _let_engine_limit(self, task: TaskRecord) -> None:
        """Gristmill's workers end a task whatever it is doing, which a thread's exception cannot."""
        limit = unlimited(task.func)
        if limit is not None and isinstance(self.executors.get(task.executor), GristmillExecutor):
            task.func, seconds = limit
            task.resource_specification = {**task.resource_specification, "walltime": seconds}

    def _label(self, executors: str | Sequence[str]) -> str:
        labels = self.labels(executors)
        return labels[0] if len(labels) == 1 else self._choose(labels)

    def count_recalled(self) -> int:
        """Counts a task whose result was remembered; gives its number."""
        self._graph.census.count_recalled()
        return self.ledger.next()

    def labels(self, executors: str | Sequence[str]) -> Sequence[str]:
        """The labels that ``executors`` of an app means. Raises ``ValueError`` for neither a list nor ``"all"``."""
        return self._roster.labels(executors)

    def cancel_task(self, task: TaskRecord, running: bool, grace: float) -> bool:
        """Cancels a task if that is possible; see ``AppFuture.cancel``."""
        return self._graph.cancel(task, running, grace)

    def explain(self, future: Future[Any]) -> str:
        """Says why the task of a future does not run yet, or where it is, in a few sentences.

        Raises ``TypeError`` for what is no future of this kernel's.
        """
        from gristmill.parsl.explanations import Explanations

        return Explanations(self, self.executors, self.render_future_description).of(future)

    def launch_if_ready(self, task_record: TaskRecord) -> None:
        """Does nothing: a task is launched as soon as it is ready."""

    def default_std_autopath(self, taskrecord: TaskRecord, kw: str) -> str:
        """Names the file of a standard stream that was asked for as ``AUTO_LOGNAME``."""
        label = taskrecord.kwargs.get("label")
        suffix = "" if label is None else f"_{label}"
        folder = os.path.join(self.run_dir, "task_logs", f"{taskrecord.id // 10000:04}")
        return os.path.join(folder, f"task_{taskrecord.id:04}_{taskrecord.func_name}{suffix}.{kw}")

    def render_future_description(self, dep: Future[Any]) -> str:
        """Says in a few words what a future is: ``task 3``."""
        if isinstance(dep, AppFuture) and dep.task_record.dfk is self:
            return f"task {dep.tid}"
        if isinstance(dep, DataFuture):
            return f"DataFuture from task {dep.tid}"
        return repr(dep)

    def log_task_states(self) -> None:
        """Logs how many tasks are in which state."""
        _log.info("Summary of tasks in DFK:")
        for state, count in self.task_state_counts.items():
            _log.info("Tasks in state %s: %s", state, count)

    def wait_for_current_tasks(self) -> None:
        """Waits until every task that exists now is final."""
        wait([task.app_fu for task in list(self._graph.census.tasks.values())])
        self._roster.wait_for_engines()
        self.recall.wait()

    def cleanup(self) -> None:
        """Ends the executors, the memoizer and everything else; an executor completes its tasks or drops them.

        Raises ``RuntimeError`` when called twice.
        """
        if self.cleanup_called:
            raise RuntimeError("attempt to clean up DFK when it has already been cleaned-up")
        self.cleanup_called = True
        self._graph.census.back_pressure.close()
        self.lanes.close()
        self.log_task_states()
        atexit.unregister(self.atexit_cleanup)
        for loader in _loaders():
            if loader._dfk is self:
                loader.clear()
        failures = self._end_parts()
        if failures:
            raise failures[0]

    def _end_parts(self) -> list[Exception]:
        """Ends all parts, whichever of them cannot be; gives what these raised."""
        ends = [self.memoizer.close, *self._roster.ends()]
        if self._monitor is not None:
            ends.append(self._monitor.close)
        failures = []
        for end in ends:
            try:
                end()
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

    from gristmill.parsl.loader import DataFlowKernelLoader

    yield DataFlowKernelLoader
    theirs = sys.modules.get("parsl.dataflow.dflow")
    if theirs is not None:
        yield theirs.DataFlowKernelLoader
