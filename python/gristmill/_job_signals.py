"""Signals that every process of a job gets, in the processes that run the program's code: the program decides.

A service manager or a batch system sends such a signal to the program, its workers and all others. A handler below
Python ignores it where the program handles it. ``signal.getsignal`` shows what a process without Gristmill would have.
"""

from __future__ import annotations

# The module `signal` only adds enumerations to this one, which zygotes load anyway.
import _signal  # type: ignore[import-not-found]
import os

from gristmill import _native

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet
    from types import TracebackType
    from typing import Any

_KEEPER = "GRISTMILL_KEEPER"
_install = _signal.signal


def leave_to_program() -> None:
    """Makes this process leave these signals to the program, until user code sets handlers of its own."""
    keeper = os.environ.get(_KEEPER, "")
    _native.leave_signals_to_program(int(keeper) if keeper.isdecimal() else 0)
    # The standard library and user code restore handlers through this name.
    _signal.signal = _install_or_leave


def leave_as_parent() -> None:
    """Makes this child of a process that left these signals to the program do so too."""
    _native.leave_signals_to_program()


def _install_or_leave(number: int, handler: Any, /) -> Any:
    """Sets the handler of a signal. A default that is restored after another handler leaves the signal to the program.

    ``asyncio.run``, among others, sets a handler for a while.
    """
    before = _install(number, handler)
    if _is_default(number, handler) and not _is_default(number, before):
        _native.leave_signal_again(number)
    return before


def _is_default(number: int, handler: Any) -> bool:
    """Returns whether Python begins with this handler of a signal."""
    if number == _signal.SIGINT:
        return handler is _signal.default_int_handler
    return type(handler) is int and handler == _signal.SIG_DFL


class Held:
    """A block of these signals while a process is started. The process inherits it, and ends it by ``release``."""

    def __enter__(self) -> Held:
        """Blocks the signals in this thread."""
        self._before: AbstractSet[int] = _signal.pthread_sigmask(
            _signal.SIG_BLOCK, _native.job_signals()
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()

    def release(self) -> None:
        """Restores the mask from before, in this process or in a fork of it."""
        _signal.pthread_sigmask(_signal.SIG_SETMASK, self._before)


def release_inherited() -> None:
    """Ends the block that this process was started with."""
    _signal.pthread_sigmask(_signal.SIG_UNBLOCK, _native.job_signals())
