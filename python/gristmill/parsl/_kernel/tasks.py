"""The kernel's data of one task, and the dict with Parsl's keys for retry handlers, memoizers and programs.

Most tasks are never inspected by the program, and a dict of so many keys costs more than the rest of such a task. A
``Task`` is therefore made with attributes only. ``Task.shared`` fills the dict and turns the object into a
``TaskRecord``, whose attributes read and write the dict: from then on the program's changes count.
"""

from __future__ import annotations

import datetime
import threading
import weakref
from typing import TYPE_CHECKING, Any

from gristmill.parsl._kernel.states import States

if TYPE_CHECKING:
    from collections.abc import Callable, ItemsView, Iterator, Sequence, ValuesView
    from concurrent.futures import Future


class Task(dict[str, Any]):
    """One task, used by the kernel only: the dict is empty."""

    __slots__ = (
        "__weakref__",
        "_future",
        "app_fu",
        "args",
        "counted_label",
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
        "joins",
        "kwargs",
        "loss_count",
        "memoize",
        "resource_specification",
        "status",
        "time_invoked",
        "time_returned",
        "try_id",
        "try_time_launched",
        "try_time_returned",
        "unfinished",
    )

    #: A weak reference to the future, after the task has released it.
    _future: weakref.ref[Any] | None
    app_fu: Any
    args: Sequence[Any]
    #: The executor that counts this task among its outstanding tasks.
    counted_label: str | None
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
    #: Workers that died while they ran this task. They are not part of ``fail_count``.
    loss_count: int
    memoize: bool
    resource_specification: dict[str, Any]
    status: States
    #: Seconds since the epoch, as the other times.
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
        self.exec_fu = self.hashsum = self.joins = self.counted_label = self._future = None
        self.time_returned = self.try_time_launched = self.try_time_returned = None
        self.fail_cost = self.fail_count = self.loss_count = self.try_id = self.unfinished = 0

    def shared(self) -> TaskRecord:
        """Returns the record for code of the program, which may keep and change it."""
        if not isinstance(self, TaskRecord):
            # The class changes first, so that the dict gets what another thread sets from now on.
            self.__class__ = TaskRecord
            self._fill()  # type: ignore[attr-defined]
            self._forget_future()
        return self  # type: ignore[return-value]

    def let_go(self) -> None:
        """Releases the final future, which refers to this task.

        Otherwise the arguments would stay in memory until the garbage collector breaks the cycle.
        """
        future = self.app_fu
        if future is not None:
            self._future = weakref.ref(future)
            # Sets the slot itself, not the dict of a record, which the program may have changed.
            _SLOT.__set__(self, None)
            self._forget_future()

    def _forget_future(self) -> None:
        """Removes the future from the dict, if the dict has it and the task has released it."""
        reference = self._future
        if reference is None or not isinstance(self, TaskRecord):
            return
        # A value that the program has set stays.
        held = dict.get(self, "app_fu")
        if held is None or held is reference():
            dict.__setitem__(self, "app_fu", None)
            self.__class__ = EndedRecord

    def note_failure(self, text: str) -> None:
        """Records that an attempt failed, whether or not the task ends with it."""
        if self.fail_count == 0 or not hasattr(self, "fail_history"):
            self.fail_history = []
        self.fail_history.append(text)
        self.fail_count += 1


_SLOT: Any = vars(Task)["app_fu"]


class _Entry:
    """An attribute with the value from the dict, or the kernel's own value if a program has deleted the key."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name
        self._slot: Any = vars(Task)[name]

    def __get__(self, record: Any, owner: type | None = None) -> Any:
        try:
            return dict.__getitem__(record, self._name)
        except KeyError:
            return self._slot.__get__(record, owner)

    def __set__(self, record: Any, value: Any) -> None:
        self._slot.__set__(record, value)
        dict.__setitem__(record, self._name, self._shown(value))

    def fill(self, record: Any) -> None:
        """Puts the attribute into the dict, unless another thread has done so."""
        dict.setdefault(record, self._name, self._shown(self._slot.__get__(record)))

    def _shown(self, value: Any) -> Any:
        return value


class _Time(_Entry):
    """A time: seconds as the attribute, a local ``datetime`` without a zone in the dict."""

    def __get__(self, record: Any, owner: type | None = None) -> Any:
        value = super().__get__(record, owner)
        return value.timestamp() if isinstance(value, datetime.datetime) else value

    def _shown(self, value: float | None) -> datetime.datetime | None:
        return None if value is None else datetime.datetime.fromtimestamp(value)


class _List(_Entry):
    """A sequence that is always a list in the dict."""

    def _shown(self, value: Sequence[Any]) -> list[Any]:
        return value if isinstance(value, list) else list(value)


class _Shown(_Entry):
    """An attribute that the dict shows, but that a program cannot change, because the kernel relies on it."""

    def __get__(self, record: Any, owner: type | None = None) -> Any:
        return self._slot.__get__(record, owner)


class _ShownFuture(_Shown):
    """The future, which the record of an ended task holds only weakly."""

    def __get__(self, record: Any, owner: type | None = None) -> Any:
        reference = record._future
        return self._slot.__get__(record, owner) if reference is None else reference()


class TaskRecord(Task):
    """One task as a dict. The keys are Parsl's; a program may change values and add keys of its own.

    The next attempt is made from the values in the dict: ``func``, ``args``, ``kwargs``, ``executor``,
    ``resource_specification``. The kernel also reads the costs and flags from it. Changes of ``id``, ``dfk``,
    ``app_fu``, ``exec_fu`` and ``status`` affect only the dict.
    """

    __slots__ = ()

    args: Any = _Entry()
    depends: Any = _List()
    dfk: Any = _Shown()
    executor: Any = _Entry()
    func: Any = _Entry()
    func_name: Any = _Entry()
    kwargs: Any = _Entry()
    memoize: Any = _Entry()
    hashsum: Any = _Entry()
    exec_fu: Any = _Shown()
    fail_count: Any = _Entry()
    fail_cost: Any = _Entry()
    fail_history: Any = _Entry()
    from_memo: Any = _Entry()
    ignore_for_cache: Any = _List()
    join: Any = _Entry()
    joins: Any = _Entry()
    try_id: Any = _Entry()
    id: Any = _Shown()
    time_invoked: Any = _Time()
    time_returned: Any = _Time()
    try_time_launched: Any = _Time()
    try_time_returned: Any = _Time()
    resource_specification: Any = _Entry()
    app_fu: Any = _ShownFuture()
    status: Any = _Shown()

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self._fill()

    def _fill(self) -> None:
        """Copies the attributes into the dict."""
        if not hasattr(self, "fail_history"):
            self.fail_history = []
        for entry in _ENTRIES:
            entry.fill(self)
        dict.setdefault(self, "task_launch_lock", threading.Lock())

    def __reduce__(self) -> tuple[type[dict[str, Any]], tuple[dict[str, Any]]]:
        # A copy is a plain dict: only the kernel's own record has the attributes.
        return dict, (dict(self),)


class EndedRecord(TaskRecord):
    """The record of a task that has released its future.

    The dict has the future while other code refers to it, and ``None`` afterwards.
    """

    __slots__ = ()

    def _or_future(self, key: str, value: Any) -> Any:
        return self.app_fu if value is None and key == "app_fu" else value

    def __getitem__(self, key: str) -> Any:
        return self._or_future(key, super().__getitem__(key))

    def get(self, key: str, default: Any = None) -> Any:
        """Returns the value of a key, like ``dict.get``."""
        return self._or_future(key, super().get(key, default))

    def __iter__(self) -> Iterator[str]:
        # Without this method ``dict(record)`` would copy the raw dict and bypass the methods of this class.
        return super().__iter__()

    def copy(self) -> dict[str, Any]:
        """Returns a copy, like ``dict.copy``."""
        return {key: self._or_future(key, value) for key, value in super().items()}

    def items(self) -> ItemsView[str, Any]:  # type: ignore[override]
        """Returns a snapshot of the items, like ``dict.items``."""
        return self.copy().items()

    def values(self) -> ValuesView[Any]:  # type: ignore[override]
        """Returns a snapshot of the values, like ``dict.values``."""
        return self.copy().values()

    def __repr__(self) -> str:
        return repr(self.copy())


_ENTRIES = [one for one in vars(TaskRecord).values() if isinstance(one, _Entry)]
