"""The end of a campaign that makes no progress: a report of what hangs, and an exit status of its own."""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import time
from collections.abc import Callable

#: Exit status of a campaign that hung.
HUNG = 3
#: Seconds that the report may take: the engine that hangs may not answer.
_REPORT_S = 30.0


class Watchdog:
    """A thread that ends this process if there is no progress for some seconds.

    ``explain`` returns the report. A thread of the C library prints the stacks and ends the process if even the
    interpreter makes no progress.
    """

    def __init__(self, seconds: float, explain: Callable[[], str]) -> None:
        self._seconds = seconds
        self._explain = explain
        self._mark: object = None
        self._is_over = False
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def tell(self, mark: object) -> None:
        """Tells how far the campaign has come; another value than before is progress."""
        self._mark = mark

    def end(self) -> None:
        """Ends the watch."""
        self._is_over = True
        self._thread.join()
        faulthandler.cancel_dump_traceback_later()

    def _run(self) -> None:
        seen, since = self._mark, time.monotonic()
        self._arm()
        while not self._is_over:
            time.sleep(0.05)
            if self._mark is not seen and self._mark != seen:
                seen, since = self._mark, time.monotonic()
                self._arm()
            elif time.monotonic() - since > self._seconds:
                self._report()

    def _arm(self) -> None:
        faulthandler.dump_traceback_later(self._seconds + 2 * _REPORT_S, exit=True)

    def _report(self) -> None:
        sys.stdout.flush()
        print(f"HANG: nothing has ended for {self._seconds:.0f} s", file=sys.stderr, flush=True)
        faulthandler.dump_traceback(all_threads=True)
        faulthandler.dump_traceback_later(_REPORT_S, exit=True)
        try:
            print(self._explain(), file=sys.stderr, flush=True)
        finally:
            os._exit(HUNG)
