"""What the kernel knows of one task: a mapping by Parsl's keys, handed to retry handlers, memoizers and the like."""

from __future__ import annotations

import datetime
import threading
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any

from gristmill.parsl.states import States

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future

#: Kept as seconds since the epoch and given as ``datetime``: a task has four, and most are never looked at.
_TIMES = frozenset({"time_invoked", "time_returned", "try_time_launched", "try_time_returned"})
#: Made when somebody asks for them; the kernel itself has one lock for all tasks.
_LOCKS = frozenset({"task_launch_lock", "join_lock"})


class TaskRecord(MutableMapping[str, Any]):
    """One task. The keys are Parsl's; the kernel reads and writes them as attributes, which is what they are."""

    __slots__ = (
        "__weakref__",
        "app_fu",
        "args",
        "checkpoint",
        "depends",
        "dfk",
        "exec_fu",
        "executor",
        "fail_cost",
        "fail_count",
        "fail_history",
        "from_memo",
        "func",
        "func_name",
        "hashsum",
        "id",
        "ignore_for_cache",
        "join",
        "join_lock",
        "joins",
        "kwargs",
        "loss_count",
        "memoize",
        "resource_specification",
        "status",
        "task_launch_lock",
        "time_invoked",
        "time_returned",
        "try_id",
        "try_time_launched",
        "try_time_returned",
        "unfinished",
    )

    app_fu: Any
    args: Sequence[Any]
    depends: Sequence[Future[Any]]
    dfk: Any
    exec_fu: Future[Any] | None
    executor: str
    fail_cost: float
    fail_count: int
    fail_history: list[str]
    from_memo: bool | None
    func: Callable[..., Any]
    func_name: str
    hashsum: Any
    id: int
    ignore_for_cache: Sequence[str]
    join: bool
    joins: Any
    kwargs: dict[str, Any]
    #: Workers that died under this task; they are not among ``fail_count``.
    loss_count: int
    memoize: bool
    resource_specification: dict[str, Any]
    status: States
    time_invoked: float | None
    time_returned: float | None
    try_id: int
    try_time_launched: float | None
    try_time_returned: float | None
    #: Futures that this task still waits for.
    unfinished: int

    def __init__(
        self,
        *,
        id: int,
        dfk: Any,
        executor: str,
        func: Callable[..., Any],
        func_name: str,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        resource_specification: dict[str, Any],
        memoize: bool = False,
        ignore_for_cache: Sequence[str] = (),
        join: bool = False,
        time_invoked: float | None = None,
        status: States = States.pending,
        app_fu: Any = None,
        from_memo: bool | None = None,
        depends: Sequence[Future[Any]] = (),
    ) -> None:
        self.id = id
        self.dfk = dfk
        self.executor = executor
        self.func = func
        self.func_name = func_name
        self.args = args
        self.kwargs = kwargs
        self.resource_specification = resource_specification
        self.memoize = memoize
        self.ignore_for_cache = ignore_for_cache
        self.join = join
        self.time_invoked = time_invoked
        self.status = status
        self.app_fu = app_fu
        self.from_memo = from_memo
        self.depends = depends
        self.exec_fu = self.hashsum = self.joins = None
        self.time_returned = self.try_time_launched = self.try_time_returned = None
        self.fail_cost = self.fail_count = self.loss_count = self.try_id = self.unfinished = 0

    def __getitem__(self, key: str) -> Any:
        try:
            value = getattr(self, key)
        except AttributeError:
            return self._late(key)
        if key in _TIMES and value is not None:
            return datetime.datetime.fromtimestamp(value)
        return value

    def _late(self, key: str) -> Any:
        if key == "fail_history":
            self.fail_history = []
            return self.fail_history
        if key in _LOCKS:
            setattr(self, key, threading.Lock())
            return getattr(self, key)
        raise KeyError(key)

    def __setitem__(self, key: str, value: Any) -> None:
        if key in _TIMES and isinstance(value, datetime.datetime):
            value = value.timestamp()
        try:
            setattr(self, key, value)
        except AttributeError:
            raise KeyError(f"a task record has no key {key!r}") from None

    def __delitem__(self, key: str) -> None:
        raise TypeError("the keys of a task record stay")

    def __iter__(self) -> Iterator[str]:
        return (name for name in self.__slots__ if not name.startswith("_") and hasattr(self, name))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        return f"<task {self.id} of app {self.func_name}: {self.status.name}>"
