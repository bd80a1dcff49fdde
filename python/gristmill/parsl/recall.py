"""Calls of apps with ``cache=True``: answered at once where the result is known, else run by the engine by itself.

What neither can do takes the way through the graph: calls with futures or files among their arguments, calls that run
at this moment already, calls that have failed before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gristmill.parsl.checkpoint import MISSING
from gristmill.parsl.dependencies import DEEP_DEPENDENCY_RESOLVER, FUTURELESS_TYPES
from gristmill.parsl.exits import Exits
from gristmill.parsl.files import is_file
from gristmill.parsl.lanes import SPECIAL
from gristmill.parsl.memoization import BasicMemoizer
from gristmill.parsl.remembered import RecalledFuture

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gristmill.parsl.apps import PythonApp
    from gristmill.parsl.kernel import DataFlowKernel
    from gristmill.parsl.lanes import Lane


class Recall:
    """Takes calls whose results are to be remembered and that wait for nothing.

    :param kernel: the kernel.
    :param is_observed: whether somebody wants to know of each step of each task.
    """

    def __init__(self, kernel: DataFlowKernel, is_observed: bool) -> None:
        self._kernel = kernel
        memoizer = kernel.memoizer
        # One of another class may look at more than the call.
        self._memoizer = memoizer if type(memoizer) is BasicMemoizer and not is_observed else None
        self._exits = Exits(kernel.memoizer)
        #: Whether the ends of calls that the engine runs are written to a checkpoint.
        self.follows_ends = (
            self._memoizer is not None
            and self._memoizer.memoize
            and self._memoizer.checkpoint_mode is not None
        )

    def call(
        self, app: PythonApp, lane: Lane | None, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """The future of a call; ``None``, and nothing has happened, if it is one for the graph.

        :param lane: the app's way into the engine, if it has one.

        Raises ``MemoKeyError`` as the call's task would.
        """
        memoizer = self._memoizer
        if memoizer is None or not kwargs.keys().isdisjoint(SPECIAL):
            return None
        if _has_to_wait(args) or _has_to_wait(kwargs.values()):
            return None
        if not memoizer.memoize:
            return lane and lane.submit(args, kwargs)
        named = {**app.kwargs, **kwargs} if app.kwargs else kwargs
        key = memoizer.key_of(app.func, args, named, app.ignore_for_cache or ())
        value = memoizer.recall(key)
        if value is not MISSING:
            return RecalledFuture(self._kernel.count_recalled(), app, self._kernel, value)
        if lane is None or not memoizer.share_running:
            return None
        with memoizer.claiming:
            if memoizer.is_claimed(key):
                return None
            future = lane.submit(args, kwargs)
            if future is None:
                return None
            if self.follows_ends:
                future = self._exits.follow(future, key, lane.label)
            memoizer.memo_lookup_table[key] = future
        return future

    def wait(self) -> None:
        """Waits until every call that was run so far is final."""
        self._exits.wait()


def _has_to_wait(values: Iterable[Any]) -> bool:
    """Whether one of the values is a file, or has a future in it."""
    for value in values:
        if type(value) in FUTURELESS_TYPES:
            continue
        if is_file(value) or DEEP_DEPENDENCY_RESOLVER.traverse_to_gather(value):
            return True
    return False
