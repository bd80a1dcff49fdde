"""Functions that are called each time that a program has fetched so many bytes of results from the engine."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_log = logging.getLogger("parsl.gristmill.kernel")


class FetchedBytes:
    """The functions of one kernel. The engine's ledger, which counts the bytes, has room for only one.

    :param ledger: of the kernel.
    """

    def __init__(self, ledger: Any) -> None:
        self._ledger = ledger
        self._step: int | None = None
        self._calls: tuple[Callable[[], None], ...] = ()

    def watch(self, step: int, call: Callable[[], None]) -> None:
        """Adds a function that is called, in the thread that fetches, at least each time that ``step`` bytes came.

        :param call: it must not refer to the kernel: the garbage collector does not see the ledger's references.
        """
        self._step = step if self._step is None else min(self._step, step)
        self._calls = (*self._calls, call)
        self._ledger.watch_fetched(self._step, partial(_call_all, self._calls))


def _call_all(calls: Sequence[Callable[[], None]]) -> None:
    for call in calls:
        try:
            call()
        except Exception:
            # Logged only: the result that is being fetched is not affected.
            _log.exception("the bytes that were fetched could not be counted")
