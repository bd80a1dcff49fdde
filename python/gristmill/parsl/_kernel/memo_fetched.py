"""Remembered calls that the engine runs alone, and the memory of their results that the program has fetched.

A result that was not fetched is stored with all results of the engine, within the engine's own limits. A fetched result
stays in memory as long as the memo table has its future. The engine does not report each end and each fetch: that would
cost more than the rest of a call. It counts the bytes that are fetched, and from time to time this module checks all
futures.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

from gristmill._native import Future as NativeFuture
from gristmill.parsl._kernel.memo_memory import SMALL
from gristmill.parsl._kernel.memo_sizes import NUMBERS, size_of, size_of_arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gristmill.parsl._kernel.memo_memory import MemoMemory, Table


class EngineCalls:
    """Calls of the engine whose results the memory does not count yet.

    :param table: of the memoizer.
    :param memory: counts their results.
    :param step: bytes of arguments and of fetched results after which the futures are checked.
    """

    def __init__(self, table: Table, memory: MemoMemory, step: int) -> None:
        self._table = table
        self._memory = memory
        self._keys: deque[str] = deque()
        #: With more keys than this, the futures are checked too: the table has forgotten some of the calls.
        self._check_at = memory.entries_max
        self._lock = threading.Lock()
        #: Bytes of the arguments of calls that were added since the last check.
        self._size = 0
        self.step = step

    def add(self, key: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Follows the call with this key, whose future is in the table."""
        self._keys.append(key)
        for value in args:
            if type(value) not in NUMBERS:
                self._size += size_of(value)
        if kwargs:
            self._size += size_of_arguments((), kwargs)
        if self._size > self.step or len(self._keys) > self._check_at:
            self.settle()

    def settle(self) -> None:
        """Hands the fetched results over to the memory. Releases the arguments of other calls that have ended."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            self._size = 0
            keys = self._keys
            for _ in range(len(keys)):
                key = keys.popleft()
                if not self._settle_one(key):
                    keys.append(key)
            # If most calls run, a check at each call would be most of the work.
            self._check_at = max(self._memory.entries_max, 2 * len(keys))
            self._memory.shrink()
        finally:
            self._lock.release()

    def _settle_one(self, key: str) -> bool:
        """Returns whether a call needs no more checks."""
        future: Any = self._table.get(key)
        if not isinstance(future, NativeFuture):
            return True
        return _hand_over(future, key, self._memory)


def _hand_over(future: Any, key: str, memory: MemoMemory) -> bool:
    """Counts the result of a future if it was fetched. Returns whether the future needs no more checks."""
    look = future._look()
    if look == "succeeded":
        if future._is_fetched:
            memory.hold(key, size_of(future.result()))
            return True
        _forget_large_arguments(future)
    elif look == "failed" and future._is_fetched:
        memory.hold(key, size_of(future.exception()) + _size_of_arguments(future))
        return True
    return bool(look == "cancelled")


def _size_of_arguments(future: Any) -> int:
    arguments = future._arguments
    return 0 if arguments is None else size_of_arguments(*arguments)


def _forget_large_arguments(future: Any) -> None:
    """Releases large arguments now, instead of at the first read of the result."""
    if _size_of_arguments(future) >= SMALL:
        future._forget_arguments()


def caller_of(calls: EngineCalls) -> Callable[[], None]:
    """Returns a function that settles calls while they exist, and holds only a weak reference to them."""
    reference = weakref.ref(calls)

    def settle() -> None:
        found = reference()
        if found is not None:
            found.settle()

    return settle
