"""The configuration of a kernel: all fields of Parsl's ``Config``, checked when it is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from gristmill.parsl.representation import RepresentationMixin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from gristmill.parsl.dependencies import DependencyResolver

_EXIT_MODES = ("cleanup", "skip", "wait")
_CHOICES = ("least_loaded", "random")
_STRATEGIES = ("simple", "htex_auto_scale", "none", None)


class Config(RepresentationMixin):
    """What ``load`` makes a kernel from.

    :param executors: where tasks run, with unique labels; Gristmill's engine on this machine if not given.
    :param memoizer: remembers results; ``BasicMemoizer()`` if not given.
    :param dependency_resolver: finds futures in arguments; at any depth of lists, tuples, sets and dicts if not given.
    :param exit_mode: what leaving ``with load(config):`` does: ``"cleanup"``, ``"wait"`` for all tasks and clean up, or
        ``"skip"`` both.
    :param garbage_collect: whether ``DataFlowKernel.tasks`` forgets tasks that are final.
    :param internal_tasks_max_threads: threads of this process for join apps, staging and ``future[key]``.
    :param retries: how often a task that failed is tried again, or the budget of ``retry_handler``'s costs.
    :param retry_handler: gives the cost of a failure: ``handler(exception, task_record) -> float``.
    :param run_dir: the folder below which each run has a numbered one.
    :param std_autopath: names the files of ``AUTO_LOGNAME``: ``function(task_record, "stdout" or "stderr")``.
    :param strategy: how blocks of Parsl's executors are scaled.
    :param strategy_period: seconds between two looks of the strategy.
    :param max_idletime: seconds after which idle blocks are given back.
    :param monitoring: a ``MonitoringHub`` that records what happens.
    :param usage_tracking: accepted and checked; nothing is ever sent.
    :param project_name: accepted; see ``usage_tracking``.
    :param initialize_logging: whether ``parsl.log`` is written into the run's folder; a log configuration of Parsl's is
        used as it is.
    :param loss_retries: how often a task is tried again whose worker was lost, ``retries`` if not given. Such a loss
        takes nothing from ``retries``.
    :param task_limit: how many tasks may be outstanding, those that wait for others too, before a call of an app waits
        in the program's own threads; no limit if not given. Plain calls on Gristmill's engine are not among them: they
        have the engine's own, ``GristmillExecutor(task_limit=...)``.
    :param executor_choice: where a task runs that may run on several executors: ``"least_loaded"``, the one with the
        fewest outstanding tasks for each worker, or ``"random"``.

    Raises ``ConfigurationError`` for labels that are not unique, and ``TypeError`` for values that cannot be meant.
    """

    def __init__(
        self,
        executors: Iterable[Any] | None = None,
        memoizer: Any = None,
        dependency_resolver: DependencyResolver | None = None,
        exit_mode: str = "cleanup",
        garbage_collect: bool = True,
        internal_tasks_max_threads: int = 10,
        retries: int = 0,
        retry_handler: Callable[[BaseException, Any], float] | None = None,
        run_dir: str = "runinfo",
        std_autopath: Callable[..., Any] | None = None,
        strategy: str | None = "simple",
        strategy_period: float = 5,
        max_idletime: float = 120.0,
        monitoring: Any = None,
        usage_tracking: int = 0,
        project_name: str | None = None,
        initialize_logging: Any = True,
        loss_retries: int | None = None,
        task_limit: int | None = None,
        executor_choice: str = "least_loaded",
    ) -> None:
        self._executors = tuple(executors or ()) or (_default_executor(),)
        self.memoizer = memoizer
        self.dependency_resolver = dependency_resolver
        self.exit_mode = exit_mode
        self.garbage_collect = garbage_collect
        self.internal_tasks_max_threads = internal_tasks_max_threads
        self.retries = retries
        self.retry_handler = retry_handler
        self.run_dir = run_dir
        self.std_autopath = std_autopath
        self.strategy = strategy
        self.strategy_period = strategy_period
        self.max_idletime = max_idletime
        self.monitoring = monitoring
        self.usage_tracking = usage_tracking
        self.project_name = project_name
        self.initialize_logging = initialize_logging
        self.loss_retries = loss_retries
        self.task_limit = task_limit
        self.executor_choice = executor_choice
        self._check()

    @property
    def executors(self) -> Sequence[Any]:
        """Where tasks run."""
        return self._executors

    def _check(self) -> None:
        labels = [executor.label for executor in self._executors]
        twice = sorted({label for label in labels if labels.count(label) > 1})
        if twice:
            refuse(f"Executors must have unique labels; used twice: {', '.join(twice)}")
        if self.exit_mode not in _EXIT_MODES:
            raise TypeError(f"exit_mode must be one of {_EXIT_MODES}, not {self.exit_mode!r}")
        if self.strategy not in _STRATEGIES:
            raise TypeError(f"strategy must be one of {_STRATEGIES}, not {self.strategy!r}")
        if self.executor_choice not in _CHOICES:
            raise TypeError(f"executor_choice is one of {_CHOICES}, not {self.executor_choice!r}")
        if self.task_limit is not None and not _is_count(self.task_limit):
            raise TypeError(f"task_limit must be a number of tasks, not {self.task_limit!r}")
        if not isinstance(self.usage_tracking, int) or not 0 <= self.usage_tracking <= 3:
            refuse(f"Usage Tracking values must be 0, 1, 2, or 3 and not {self.usage_tracking}")
        for name in ("retry_handler", "std_autopath"):
            if getattr(self, name) is not None and not callable(getattr(self, name)):
                raise TypeError(f"{name} must be a function, not {getattr(self, name)!r}")
        for name in ("retries", "internal_tasks_max_threads"):
            if not isinstance(getattr(self, name), int):
                raise TypeError(f"{name} must be a whole number, not {getattr(self, name)!r}")


def _is_count(value: object) -> bool:
    return type(value) is int and value > 0


def refuse(reason: str) -> NoReturn:
    """Raises ``ConfigurationError``."""
    from gristmill.parsl.errors import ConfigurationError

    raise ConfigurationError(reason)


def _default_executor() -> Any:
    from gristmill.parsl.executors.engine import GristmillExecutor

    return GristmillExecutor()
