"""The interfaces between the parts of a benchmark."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from gristmill_bench.ended import Ended

#: A filter: returns whether an argument or a result is transformed.
Filter = Callable[[Any], bool]


class Future(Protocol):
    """The future of an executor's task: a part of ``concurrent.futures.Future``."""

    def result(self, timeout: float | None = None) -> Any:
        """Waits for the task; returns its result or raises its exception."""

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Waits for the end of the task; returns its exception."""

    def done(self) -> bool:
        """Returns whether the task has ended."""

    def cancel(self) -> bool:
        """Cancels the task if possible; returns whether it did."""

    def add_done_callback(self, callback: Callable[[Any], object], /) -> None:
        """Calls ``callback`` with this future when the task has ended."""


class Backend(Protocol):
    """An executor with its workers running. Its futures may be arguments of its tasks."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        """Submits a call."""

    def shutdown(self) -> None:
        """Ends all processes and threads of the executor."""


@runtime_checkable
class Keeper(Protocol):
    """A backend that keeps the setup that tasks need. For a backend without this method, the suite keeps the setup."""

    def within(
        self, setup: Callable[..., Any], arguments: tuple[Any, ...], /
    ) -> tuple[Backend, Callable[[], Any]]:
        """Returns a backend for tasks that need ``setup(*arguments)``, and a callable that returns it in a worker."""


class Transformer(Protocol):
    """A store for objects: tasks get the name of a stored object instead of the object."""

    def transform(self, value: Any) -> Any:
        """Stores an object; returns its name."""

    def resolve(self, name: Any) -> Any:
        """Returns the object of a name."""

    def is_name(self, value: Any) -> bool:
        """Returns whether a value is a name that this transformer made."""

    def close(self) -> None:
        """Closes the store: its names become invalid."""


class Records(Protocol):
    """A recorder of ended tasks."""

    def note(self, task: Ended) -> None:
        """Records a task that has ended."""

    def close(self) -> None:
        """Closes the recorder; everything is written when this returns."""
