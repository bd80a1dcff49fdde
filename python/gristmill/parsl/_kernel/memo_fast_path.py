"""Calls of apps with ``cache=True``: answered at once if the result is known, else run by the engine alone.

Other calls go through the graph: those with futures or files among their arguments, those that are running already, and
those that have failed before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gristmill.parsl._kernel.checkpoint import MISSING
from gristmill.parsl._kernel.dependencies import DEEP_DEPENDENCY_RESOLVER, FUTURELESS_TYPES
from gristmill.parsl._kernel.exit_checkpoints import ExitCheckpoints
from gristmill.parsl._kernel.fast_paths import SPECIAL
from gristmill.parsl._kernel.files import is_file
from gristmill.parsl._kernel.memo_fetched import caller_of
from gristmill.parsl._kernel.memoization import BasicMemoizer
from gristmill.parsl._kernel.remembered import RecalledFuture

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gristmill.parsl._kernel.apps import PythonApp
    from gristmill.parsl._kernel.fast_paths import FastPath
    from gristmill.parsl._kernel.kernel import DataFlowKernel
    from gristmill.parsl._kernel.memo_fetched import EngineCalls


class MemoFastPath:
    """The path of calls whose results are remembered and that wait for nothing.

    :param kernel: the kernel.
    :param is_observed: whether an observer needs each step of each task.
    """

    def __init__(self, kernel: DataFlowKernel, is_observed: bool) -> None:
        self._kernel = kernel
        memoizer = kernel.memoizer
        # A memoizer of another class may look at more than the call.
        self._memoizer = memoizer if type(memoizer) is BasicMemoizer and not is_observed else None
        self._exits = ExitCheckpoints(kernel.memoizer)
        self._is_watching = False
        #: True if the ends of calls that the engine runs are written to a checkpoint.
        self.follows_ends = (
            self._memoizer is not None
            and self._memoizer.memoize
            and self._memoizer.checkpoint_mode is not None
        )

    def call(
        self,
        app: PythonApp,
        fast_path: FastPath | None,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Returns the future of a call. If only the graph can run the call, returns ``None`` and does nothing.

        :param fast_path: the app's fast path into the engine, if it has one.

        Raises ``MemoKeyError``, as the call's task would, and ``ForkedProcessError``.
        """
        self._kernel.refuse_forked()
        memoizer = self._memoizer
        if memoizer is None or not kwargs.keys().isdisjoint(SPECIAL):
            return None
        if _has_to_wait(args) or _has_to_wait(kwargs.values()):
            return None
        if not memoizer.memoize:
            return fast_path and fast_path.submit(args, kwargs)
        named = {**app.kwargs, **kwargs} if app.kwargs else kwargs
        key = memoizer.key_of(app.func, args, named, app.ignore_for_cache or ())
        value = memoizer.recall(key)
        if value is not MISSING:
            return RecalledFuture(self._kernel.count_recalled(), app, self._kernel, key, value)
        if fast_path is None or not memoizer.share_running:
            return None
        with memoizer.claiming:
            if memoizer.is_claimed(key):
                return None
            future = fast_path.submit(args, kwargs)
            if future is None:
                return None
            if self.follows_ends:
                future = self._exits.follow(future, key, fast_path.label)
                memoizer.memo_lookup_table[key] = future
            else:
                memoizer.memo_lookup_table[key] = future
                if not self._is_watching:
                    self._watch(memoizer.engine_calls)
                memoizer.engine_calls.add(key, args, kwargs)
                memoizer.bound_entries()
        return future

    def _watch(self, calls: EngineCalls) -> None:
        """Asks the engine for a callback when the program has fetched results of the kernel that take much memory."""
        self._is_watching = True
        self._kernel.fetched_bytes.watch(calls.step, caller_of(calls))

    def wait(self) -> None:
        """Waits until every call that was run so far is final."""
        self._exits.wait()

    def close(self) -> None:
        """Forgets all calls: their futures refer to the engine, which would keep them and the kernel alive forever."""
        if self._memoizer is not None:
            self._memoizer.memo_lookup_table.clear()


def _has_to_wait(values: Iterable[Any]) -> bool:
    """Returns whether one of the values is a file, or contains a future."""
    for value in values:
        if type(value) in FUTURELESS_TYPES:
            continue
        if is_file(value) or DEEP_DEPENDENCY_RESOLVER.traverse_to_gather(value):
            return True
    return False
