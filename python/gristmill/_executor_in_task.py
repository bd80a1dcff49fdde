"""The executor of a module that a worker has imported: in a task it stands for the executor that runs the task."""

from __future__ import annotations

import concurrent.futures
from typing import TYPE_CHECKING, Any, TypeVar

from gristmill import _nested
from gristmill._weak import WeakBag

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from gristmill._mapping import MapTerms
    from gristmill._task_options import TaskOptions

R = TypeVar("R")

#: Methods and attributes that tell of the engine, or change it.
_OF_PROGRAM = ("stats", "nodes", "explain", "ends_in", "extend", "use")

_TEXT = (
    "this executor of an imported module stands for the executor that runs the tasks of this worker, "
    "and only the thread of a task can use it: "
)


def adopt(executor: Any) -> None:
    """Makes an executor of this worker stand for the one that runs its tasks. It starts no processes of its own."""
    cls = type(executor)
    names: dict[str, Any] = {
        name: _refusal(name, isinstance(getattr(cls, name), property))
        for name in _OF_PROGRAM
        if hasattr(cls, name)
    }
    if hasattr(cls, "wait"):
        names["wait"] = _wait
    names |= {
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
    }
    executor._submitted = WeakBag()
    executor.__class__ = type(cls.__name__, (_InTask, cls), names)


def _refusal(name: str, is_property: bool) -> Any:
    """Makes a method, or a property, that raises ``RuntimeError``."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            f"{name} is for the program: in a task, an executor of an imported module stands for the one "
            "that runs the task"
        )

    refuse.__name__ = name
    return property(refuse) if is_property else refuse


def _wait(executor: object, timeout: float | None = None) -> None:
    """Returns at once, as ``Lease.wait`` does where there is a worker."""


def _current() -> _nested.NestedExecutor:
    """Returns the executor that runs the present task. Raises ``RuntimeError`` where there is none."""
    try:
        return _nested.current_executor()
    except RuntimeError as error:
        raise RuntimeError(_TEXT + str(error)) from None


def _is_of_this_task(future: _nested.NestedFuture[Any]) -> bool:
    try:
        future.done()
    except RuntimeError:
        return False
    return True


class _InTask:
    """The methods of an executor that act on the one that runs the present task."""

    __slots__ = ()
    _stands_for_own = True
    #: The futures that this executor has returned.
    _submitted: WeakBag[Any]

    def submit(self, fn: Callable[..., R], /, *args: Any, **kwargs: Any) -> _nested.NestedFuture[R]:
        """Works like ``current_executor().submit``."""
        future = _current().submit(fn, *args, **kwargs)
        self._submitted.add(future)
        return future

    def submit_many(
        self, fn: Callable[..., R], /, *iterables: Iterable[Any]
    ) -> list[_nested.NestedFuture[R]]:
        """Works like ``current_executor().submit_many``."""
        return [self.submit(fn, *arguments) for arguments in zip(*iterables, strict=False)]

    def _map(
        self, fn: Callable[..., R], iterables: tuple[Iterable[Any], ...], terms: MapTerms
    ) -> Iterator[R]:
        return _current()._map(fn, iterables, terms)

    def options(self, **options: Any) -> _nested.NestedBoundExecutor:
        """Works like ``current_executor().options``."""
        return _current().options(**options)

    def bind(self, options: TaskOptions) -> _nested.NestedBoundExecutor:
        """Works like ``current_executor().bind``."""
        return _current().bind(options)

    def _define_context(self, *terms: Any) -> Any:
        return _current()._define_context(*terms)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Waits for the tasks of ``submit`` whose futures are still there, or cancels them.

        The executor stays usable.
        """
        futures = [one for one in self._submitted if _is_of_this_task(one)]
        for future in futures if cancel_futures else ():
            future.cancel()
        if wait and futures:
            concurrent.futures.wait(futures)
