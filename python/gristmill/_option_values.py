"""The values of a task's options, and their checks.

``gristmill.TaskOptions`` and the method ``options`` of executors share them. That method makes no ``TaskOptions``,
because loading the standard library's ``dataclasses`` takes about ten milliseconds, a tenth of the time to a program's
first result. The property ``options`` makes one when it is read.
"""

from __future__ import annotations

from types import SimpleNamespace

from gristmill import _options, _resources

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from gristmill._task_options import TaskOptions


def _between(least: int, most: int) -> Callable[[str, Any], int]:
    return lambda name, value: _options.count(name, value, least, most)


_retries = _between(0, _options.SHORT_MAX)
#: Fields, their defaults, and what checks other values: options are often made for each task, with a few fields.
_CHECKS: tuple[tuple[str, object, Callable[[str, Any], object]], ...] = (
    ("timeout", None, _options.seconds),
    ("start_within", None, _options.seconds),
    ("retries", 0, _retries),
    ("loss_retries", 0, _retries),
    ("timeout_retries", 0, _retries),
    ("priority", 0, _between(-_options.PRIORITY_MAX - 1, _options.PRIORITY_MAX)),
    ("grace", 1.0, _options.seconds),
    ("views", False, _options.flag),
)
#: The objects that are the defaults of ``cores`` and ``gpus``, which are recognised by identity, and the demand of a
#: task with these.
_ONE, _ZERO = 1, 0
_NO_DEMAND = _resources.demand(_ONE, _ZERO, None)


def check(options: Any) -> None:
    """Checks the fields of an object and replaces them by what the engine counts in; ``_demand`` has its resources.

    Raises ``TypeError`` for values of a wrong kind, ``ValueError`` for values out of range, and ``ResourceError`` for a
    context together with resources.
    """
    set_field = object.__setattr__  # the fields of a ``TaskOptions`` are frozen for users
    for name, default, checked in _CHECKS:
        value = getattr(options, name)
        if value is not default:
            set_field(options, name, checked(name, value))
    has_default = options.cores is _ONE and options.gpus is _ZERO and options.memory is None
    demand = (
        _NO_DEMAND
        if has_default
        else _resources.demand(options.cores, options.gpus, options.memory)
    )
    set_field(options, "_demand", demand)
    if options.context is not None:
        from gristmill._context.declare import check_named

        check_named(options.context, demand)


def make(**fields: Any) -> Any:
    """Returns an object with the fields, which must be all of a ``TaskOptions``, checked."""
    values = SimpleNamespace(**fields)
    check(values)
    return values


def task_options(values: Any) -> TaskOptions:
    """Returns the ``TaskOptions`` with these values, which ``make`` or the caller made."""
    from gristmill._task_options import TaskOptions

    if isinstance(values, TaskOptions):
        return values
    fields = {name: value for name, value in vars(values).items() if name != "_demand"}
    return TaskOptions(**fields)


def of_caller(options: Any) -> TaskOptions:
    """Returns the options of a caller. Raises ``TypeError`` if they are no ``TaskOptions``."""
    from gristmill._task_options import TaskOptions

    if not isinstance(options, TaskOptions):
        raise TypeError(f"options must be a gristmill.TaskOptions, not {_options.shown(options)}")
    return options
