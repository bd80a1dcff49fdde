"""What the parts of a benchmark look like to each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from gristmill.bench.ended import Ended

#: Whether an argument or a result is to be transformed.
Filter = Callable[[Any], bool]


class Future(Protocol):
    """What an executor gives for a task: a part of ``concurrent.futures.Future``."""

    def result(self, timeout: float | None = None) -> Any:
        """Waits for what the task returns; raises what it raises."""

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Waits for its end; what it has raised."""

    def done(self) -> bool:
        """Whether it has ended."""

    def cancel(self) -> bool:
        """Cancels it if that can be; whether it did."""

    def add_done_callback(self, callback: Callable[[Any], object], /) -> None:
        """Calls that with this future once the task has ended."""


class Backend(Protocol):
    """An executor with its workers running. Futures that it gave may be arguments of its tasks."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        """Submits a call."""

    def shutdown(self) -> None:
        """Ends every process and thread of it."""


@runtime_checkable
class Keeper(Protocol):
    """A backend that keeps what tasks need before they run. Others need not have this: the suite does it for them."""

    def within(
        self, setup: Callable[..., Any], arguments: tuple[Any, ...], /
    ) -> tuple[Backend, Callable[[], Any]]:
        """A backend for tasks that need what ``setup(*arguments)`` returns, and what gives them that where they run."""


class Transformer(Protocol):
    """Puts an object somewhere and sends its name instead."""

    def transform(self, value: Any) -> Any:
        """Puts it there; gives its name."""

    def resolve(self, name: Any) -> Any:
        """The object of a name."""

    def is_name(self, value: Any) -> bool:
        """Whether that is a name which it gave."""

    def close(self) -> None:
        """Ends: names stand for nothing any more."""


class Records(Protocol):
    """Notes what becomes of tasks."""

    def note(self, task: Ended) -> None:
        """A task has ended."""

    def close(self) -> None:
        """Ends: everything is written."""
