"""``gristmill.TaskOptions``: the options of a task, validated when they are made."""

from __future__ import annotations

import dataclasses

from gristmill import _option_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gristmill._context.declare import Context


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskOptions:
    """Options of tasks, for ``Executor.bind``. ``Executor.options`` takes the same fields as arguments.

    Raises ``TypeError`` for values of a wrong kind, ``ValueError`` for values out of range, and ``ResourceError`` for a
    context together with resources.
    """

    #: Seconds that a task may run. It is then interrupted, and killed after ``grace`` more seconds.
    timeout: float | None = None
    #: Seconds from ``submit`` within which a task must start; later it fails instead of starting.
    start_within: float | None = None
    #: The number of times that a task that raised is run again.
    retries: int = 0
    #: The number of times that a task whose worker died is run again. With the default 0, a task that may have started
    #: never runs twice.
    loss_retries: int = 0
    #: The number of times that a task that ran out of time is run again.
    timeout_retries: int = 0
    #: Tasks of a higher priority start earlier.
    priority: int = 0
    #: Seconds between the interrupt of a task that ran out of time and the kill of its worker.
    grace: float = 1.0
    #: True to pass arrays in shared memory by reference, and to return arrays of the result as read-only views.
    views: bool = False
    #: The number of CPU slots that a task fills, so that it may use as many cores.
    cores: int = 1
    #: GPUs that a task has for itself, or a share of one, such as 0.5.
    gpus: float = 0
    #: Memory that no other task may request meanwhile: bytes, or text such as ``"4GB"``.
    memory: int | str | None = None
    #: The context that tasks run in. They cannot request cores, GPUs or memory of their own.
    context: Context | None = None

    def __post_init__(self) -> None:
        _option_values.check(self)
