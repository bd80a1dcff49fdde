"""Calls of other software with time limits: a provider of a batch system, or the client of a cluster.

It may never answer, so each call has a thread of its own. One call is made at a time, because the other side need not
be safe for several threads. Only the last calls of an executor are made beside a call that hangs.
"""

from __future__ import annotations

import dataclasses
import threading
import time

from gristmill import _forked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

#: The time after which a wait for an answer is reported, seconds.
_REPORTED_S = 5.0


@dataclasses.dataclass(frozen=True)
class CallLimit:
    """The time for which a call is waited for."""

    #: Seconds while the executor works.
    usual_s: float
    #: Seconds once the executor ends.
    last_s: float
    #: True if the call ends something, and at the end is made even if another call hangs.
    is_last: bool = False


class _Call:
    """A call of one function.

    :param limit_s: the time for which it is waited for, seconds.
    :param late: called with a result that comes after that time.
    """

    def __init__(self, name: str, limit_s: float, late: Callable[[Any], object] | None) -> None:
        self.name = name
        self.begun_at = time.monotonic()
        self.limit_at = self.begun_at + limit_s
        self.late = late
        self.is_over = False
        self.is_abandoned = False
        self.result: Any = None
        self.error: BaseException | None = None


class OutsideCalls:
    """The calls of one object.

    :param whose: what the object is, for messages.
    :param limits: the limits of its methods, by their names.
    """

    def __init__(self, whose: str, limits: Mapping[str, CallLimit]) -> None:
        self._whose = whose
        self._limits = limits
        #: Its lock is reentrant: a signal handler may end the executor.
        self._condition = threading.Condition()
        self._pending: _Call | None = None
        self._is_ending = False

    def call(
        self,
        name: str,
        function: Callable[..., Any],
        *arguments: Any,
        late: Callable[[Any], object] | None = None,
        waits: bool = False,
        progress: Callable[[], object] = lambda: None,
    ) -> Any:
        """Calls a function and returns its result.

        Raises its exception, and ``TimeoutError`` if it has not returned in time, or if an earlier call hangs.

        :param name: the name of the method, which has a limit.
        :param late: called with the result of a call that returns after its time.
        :param waits: whether to wait for the end of an earlier call first.
        :param progress: returns how far the call is: while its results differ, the time begins again, but not once the
            executor ends.
        """
        limit = self._limits[name]
        with self._condition:
            while waits and self._pending is not None and not self._is_ending:
                self._condition.wait()
            if self._pending is not None and not (self._is_ending and limit.is_last):
                raise TimeoutError(self._in_words(self._pending))
            limit_s = limit.last_s if self._is_ending else limit.usual_s
            call = self._pending = _Call(name, limit_s, late)
        thread = threading.Thread(
            target=self._run, args=(call, function, arguments), name="gristmill-ask", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:
            # The interpreter is ending, or the process has as many threads as it may: the call has no limit then.
            self._run(call, function, arguments)
        self._await(call, limit.usual_s, progress)
        if isinstance(call.error, Exception):
            raise call.error
        if call.error is not None:  # SystemExit must not end the thread that asks
            raise RuntimeError(f"{name}() raised {call.error!r}") from call.error
        return call.result

    def _await(self, call: _Call, usual_s: float, progress: Callable[[], object]) -> None:
        """Waits for the end of a call. Abandons it, and raises ``TimeoutError``, after its time without progress."""
        last = progress()
        while True:
            with self._condition:
                while not call.is_over and time.monotonic() < call.limit_at:
                    self._condition.wait(call.limit_at - time.monotonic())
            now = progress()
            with self._condition:
                if call.is_over:
                    return
                call.is_abandoned = now == last or self._is_ending
                call.limit_at = time.monotonic() + usual_s
            if call.is_abandoned:
                raise TimeoutError(self._in_words(call))
            last = now

    def _run(self, call: _Call, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        try:
            call.result = _forked.guarded(function, *arguments)
        except BaseException as error:
            call.error = error
        with self._condition:
            call.is_over = True
            if self._pending is call:
                self._pending = None
            self._condition.notify_all()
            is_late = call.is_abandoned and call.error is None
        if is_late and call.late is not None:
            call.late(call.result)

    def begin_end(self) -> None:
        """Shortens the limits of the current call and of all later ones."""
        with self._condition:
            self._is_ending = True
            if self._pending is not None:
                last_at = time.monotonic() + self._limits[self._pending.name].last_s
                self._pending.limit_at = min(self._pending.limit_at, last_at)
            self._condition.notify_all()

    def is_hanging(self) -> bool:
        """Returns whether a call has not returned."""
        return self._pending is not None

    def hangs_s(self) -> float:
        """Returns the time for which a call has not returned, seconds; 0 without such a call."""
        pending = self._pending
        return 0.0 if pending is None else time.monotonic() - pending.begun_at

    def waiting(self) -> str:
        """Returns in words what has been waited for, for a few seconds at least; empty if there is nothing."""
        pending = self._pending
        is_long = pending is not None and self.hangs_s() >= _REPORTED_S
        return self._in_words(pending) if is_long and pending is not None else ""

    def _in_words(self, call: _Call) -> str:
        since_s = time.monotonic() - call.begun_at
        return f"{call.name}() of {self._whose} has not returned for {since_s:.0f} s"
