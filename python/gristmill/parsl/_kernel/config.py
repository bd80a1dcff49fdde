"""The configuration of a kernel: all fields of Parsl's ``Config``, checked at construction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from gristmill import _options
from gristmill._options import shown
from gristmill.parsl._kernel.representation import RepresentationMixin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from gristmill.parsl._kernel.dependencies import DependencyResolver

#: Allowed values of the fields that have a fixed set of them.
_CHOSEN: dict[str, tuple[str | None, ...]] = {
    "exit_mode": ("cleanup", "skip", "wait"),
    "strategy": ("simple", "htex_auto_scale", "none", None),
    "executor_choice": ("least_loaded", "random"),
}
#: Fields that hold objects: the method that the object must have, and its type for the message.
_PARTS = (
    ("memoizer", "check_memo", "a Memoizer"),
    ("dependency_resolver", "traverse_to_gather", "a DependencyResolver"),
    ("monitoring", "resource_monitoring_interval", "a MonitoringHub"),
    ("initialize_logging", "initialize_logging", "True, False or a log configuration"),
)


class Config(RepresentationMixin):
    """The configuration that ``load`` makes a kernel from.

    :param executors: where tasks run, with unique labels; Gristmill's engine on this machine if not given.
    :param memoizer: remembers results; ``BasicMemoizer()`` if not given.
    :param dependency_resolver: finds futures in arguments; at any depth of lists, tuples, sets and dicts if not given.
    :param exit_mode: the effect of leaving ``with load(config):``: ``"cleanup"`` cleans up, ``"wait"`` waits for all
        tasks and cleans up, ``"skip"`` does neither.
    :param garbage_collect: whether ``DataFlowKernel.tasks`` forgets tasks that are final.
    :param internal_tasks_max_threads: threads of this process for join apps, staging and ``future[key]``.
    :param retries: how often a failed task is retried, or the budget of ``retry_handler``'s costs.
    :param retry_handler: returns the cost of a failure: ``handler(exception, task_record) -> float``.
    :param run_dir: the folder in which each run gets a numbered folder.
    :param std_autopath: names the files of ``AUTO_LOGNAME``: ``function(task_record, "stdout" or "stderr")``.
    :param strategy: how blocks of Parsl's executors are scaled.
    :param strategy_period: seconds between two runs of the strategy.
    :param max_idletime: seconds after which idle blocks are released.
    :param monitoring: a ``MonitoringHub`` that records what happens.
    :param usage_tracking: accepted and checked; nothing is ever sent.
    :param project_name: accepted; see ``usage_tracking``.
    :param initialize_logging: whether ``parsl.log`` is written into the run's folder. A log configuration of Parsl's is
        used as it is.
    :param loss_retries: how often a task is retried after the loss of its worker; ``retries`` if not given. Such a loss
        takes nothing from ``retries``.
    :param task_limit: how many tasks may be outstanding, waiting ones included, before a call of an app blocks in the
        program's own threads; if not given, as many as fit into a quarter of memory, at 2,500 bytes each. Plain calls
        on Gristmill's engine do not count: the engine has its own limit, ``GristmillExecutor(task_limit=...)``.
    :param executor_choice: the choice among several executors that may run a task: ``"least_loaded"``, the one with the
        fewest outstanding tasks for each worker, or ``"random"``.

    Raises ``ConfigurationError`` for labels that are not unique, ``TypeError`` for values of other types and
    ``ValueError`` for numbers out of range.
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
        self._executors = _executors(executors) or (_default_executor(),)
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
        """The executors that run tasks."""
        return self._executors

    def validate_usage_tracking(self, level: int) -> None:
        """Raises ``ConfigurationError`` for an unknown level of usage tracking."""
        if not isinstance(level, int) or not 0 <= level <= 3:
            refuse(f"Usage Tracking values must be 0, 1, 2, or 3 and not {shown(level)}")

    def get_usage_information(self) -> dict[str, Any]:
        """Returns what Parsl would report about this configuration. Gristmill sends it nowhere."""
        return {
            "executors_len": len(self.executors),
            "dependency_resolver": self.dependency_resolver is not None,
        }

    def _check(self) -> None:
        labels = [executor.label for executor in self._executors]
        twice = sorted({label for label in labels if labels.count(label) > 1})
        if twice:
            refuse(f"Executors must have unique labels; used twice: {', '.join(twice)}")
        for name in _CHOSEN:
            check_choice(self, name)
        if self.task_limit is not None and not _is_count(self.task_limit):
            raise TypeError(f"task_limit must be a number of tasks, not {shown(self.task_limit)}")
        self.validate_usage_tracking(self.usage_tracking)
        for name in ("retry_handler", "std_autopath"):
            if getattr(self, name) is not None and not callable(getattr(self, name)):
                raise TypeError(f"{name} must be a function, not {shown(getattr(self, name))}")
        self._check_numbers()
        if not isinstance(self.garbage_collect, bool):
            raise TypeError(
                f"garbage_collect must be True or False, not {shown(self.garbage_collect)}"
            )
        _options.path("run_dir", self.run_dir)
        _options.optional_text("project_name", self.project_name)
        for name, method, text in _PARTS:
            part = getattr(self, name)
            is_left_out = isinstance(part, bool) if name == "initialize_logging" else part is None
            if not is_left_out and not hasattr(part, method):
                raise TypeError(f"{name} must be {text}, not {shown(part)}")

    def _check_numbers(self) -> None:
        _options.count("retries", self.retries, 0)
        _options.optional_count("loss_retries", self.loss_retries, 0)
        threads = self.internal_tasks_max_threads
        _options.count("internal_tasks_max_threads", threads, 1, _options.LONG_MAX)
        _options.seconds("strategy_period", self.strategy_period)
        if not _options.is_infinite(self.max_idletime):
            _options.seconds("max_idletime", self.max_idletime)


def check_choice(config: Any, name: str) -> None:
    """Raises ``TypeError`` if a field of a configuration has none of the values that it may have."""
    value, choices = getattr(config, name), _CHOSEN[name]
    # ``in`` is safe for texts only: arrays compare item by item.
    if not isinstance(value, (str, type(None))) or value not in choices:
        raise TypeError(f"{name} must be one of {choices}, not {shown(value)}")


def _executors(executors: Any) -> tuple[Any, ...]:
    """Returns the executors of a configuration. Raises ``TypeError`` for anything that is no list of executors."""
    if executors is None:
        return ()
    if isinstance(executors, (str, bytes)) or not hasattr(type(executors), "__iter__"):
        raise TypeError(f"executors must be a list of executors, not {shown(executors)}")
    found = tuple(executors)
    for one in found:
        if not isinstance(getattr(one, "label", None), str):
            raise TypeError(f"executors must be a list of executors, not one with {shown(one)}")
    return found


def _is_count(value: object) -> bool:
    return type(value) is int and value > 0


def refuse(reason: str) -> NoReturn:
    """Raises ``ConfigurationError``."""
    from gristmill.parsl._kernel.errors import ConfigurationError

    raise ConfigurationError(reason)


def _default_executor() -> Any:
    from gristmill.parsl._kernel.executors.engine import GristmillExecutor

    return GristmillExecutor()
