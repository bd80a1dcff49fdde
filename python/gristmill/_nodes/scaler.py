"""Looks after the blocks of a provider: adds some when tasks wait, takes some away when none do, and gives up."""

from __future__ import annotations

import logging
import math
import threading
import time

from gristmill._nodes.opening import BEAT_S
from gristmill._nodes.pauses import Pauses
from gristmill._nodes.scaling import Rate, Strategy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from gristmill._nodes.block_status import BlockStatus, ErrorHandler
    from gristmill._nodes.blocks import Block, Blocks
    from gristmill._nodes.view import ClientView

    Told = Callable[[Mapping[str, BlockStatus]], object]

_log = logging.getLogger("gristmill.nodes")

#: Shortest time between two looks at the tasks, and between two questions to the batch system, seconds. Both double
#: while nothing happens.
_LOOK_S, _POLL_S = 0.05, 2.0
#: After this time a node that has got a task has told of it, seconds.
_CERTAIN_S = 2 * BEAT_S
#: How often the batch system is asked to end jobs that are not needed, until it says that it has.
_CANCELS_MAX = 3


class Scaler:
    """A thread that scales, until nothing is needed any more.

    :param blocks: what it scales.
    :param provider: whose blocks these are.
    :param strategy: how many blocks there should be.
    :param rate: how many jobs may be submitted when.
    :param handler: told of all blocks after each look at them; it may call ``set_bad_state_and_fail_all``.
    :param client: whose tasks they are for.
    :param period_s: the longest time between two looks at the tasks.
    :param told: called with the blocks that have come into another state.
    """

    def __init__(
        self,
        blocks: Blocks,
        provider: Any,
        strategy: Strategy,
        rate: Rate,
        handler: ErrorHandler,
        client: ClientView,
        period_s: float,
        told: Told | None = None,
    ) -> None:
        self.blocks = blocks
        self.provider = provider
        self.label = blocks.label
        self.executor_exception: BaseException | None = None
        self._strategy = strategy
        self._rate = rate
        self._handler = handler
        self._client = client
        self._period_s = period_s
        self._told = told
        # However many blocks come to nothing, another one may not.
        self._pauses = Pauses(failures_max=1 << 30, span_max_s=math.inf)
        self._wanted = 0
        self._submit_at = 0.0
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gristmill-blocks", daemon=True)

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def end(self) -> None:
        """Takes all blocks away."""
        self._ends.set()
        self._thread.join()

    @property
    def bad_state_is_set(self) -> bool:
        """Whether it has given up."""
        return self.executor_exception is not None

    def set_bad_state_and_fail_all(self, exception: BaseException) -> None:
        """Gives up: no job is submitted any more, those that there are end, and every task fails."""
        self.executor_exception = exception

    def _run(self) -> None:
        try:
            self._look_after()
        except Exception as error:  # without this thread tasks would wait for ever
            _log.exception("blocks can be looked after no more")
            self.set_bad_state_and_fail_all(error)
        for _ in range(_CANCELS_MAX):
            living = self.blocks.living()
            if not living:
                break
            self.blocks.take_away(living)
        self._tell()
        if self.executor_exception is not None:
            self._client.give_up(str(self.executor_exception))

    def _look_after(self) -> None:
        look_s, poll_s = _LOOK_S, _POLL_S
        poll_at = time.monotonic() + poll_s
        while True:
            now = time.monotonic()
            change = self.blocks.see(self._client.nodes(), now)
            if change.has_gained:
                self._pauses.failures = 0
            # The batch system takes a moment to notice that a job has begun, or ended.
            if self._scale(now) or change.has_lost:
                look_s, poll_s, poll_at = _LOOK_S, _POLL_S, now + _POLL_S
            elif now >= poll_at:
                self._poll(now)
                poll_s = min(2 * poll_s, max(_POLL_S, self.provider.status_polling_interval))
                poll_at = now + poll_s
            self._tell()
            if self.bad_state_is_set or self._ends.wait(look_s) or self._client.is_over():
                return
            look_s = min(2 * look_s, self._period_s)

    def _tell(self) -> None:
        changes = self.blocks.take_changes()
        if changes and self._told is not None:
            try:
                self._told(changes)
            except Exception:
                _log.exception("what became of blocks could not be told")

    def _poll(self, now: float) -> None:
        if self.blocks.poll(self._client.joined):
            self._pause(now)
        self._handle()

    def _pause(self, now: float) -> None:
        """Holds the next submission back, because the last one came to nothing."""
        self._submit_at = now + (self._pauses.after(0.0) or 0.0)

    def _handle(self) -> None:
        try:
            self._handler(self, self.blocks.statuses())
        except Exception as error:
            _log.exception("the handler of errors of blocks failed")
            self.set_bad_state_and_fail_all(error)

    def _scale(self, now: float) -> bool:
        """Adds or takes away what the strategy says, one job at a time; says whether it did."""
        living, tasks = self.blocks.living(), self._client.tasks()
        count, workers = len(living) + self._wanted, self.blocks.workers_per_block()
        change = self._strategy.decide(tasks, count, now, workers)
        if change < 0:
            return self._take_away(-change, tasks > 0, now)
        self._wanted += change
        if not self._wanted or now < self._submit_at or self._rate.wait_s(now) > 0:
            return False
        self._wanted -= 1
        self._rate.note(now)
        if not self.blocks.submit():
            self._pause(now)
            self._handle()
        return True

    def _take_away(self, count: int, are_tasks_there: bool, now: float) -> bool:
        """Takes blocks away, of which only idle ones while there are tasks; says whether it did."""
        unsubmitted = min(self._wanted, count)
        self._wanted -= unsubmitted
        if are_tasks_there:
            spare = self._idle(now)
        else:
            # Those that have not begun first, then the youngest: the others have proved themselves.
            living = self.blocks.living()
            spare = sorted(living, key=lambda block: (block.has_joined, -int(block.number)))
        chosen = spare[: count - unsubmitted]
        self.blocks.take_away(chosen)
        return bool(chosen)

    def _idle(self, now: float) -> list[Block]:
        """The blocks that have been idle for long enough, as far as that is certain."""
        known = sum(node.tasks for node in self._client.nodes())
        if known < self._client.tasks_on_nodes():
            return []  # some went out after a node's last sign of life: nobody knows where
        return self.blocks.idle(now - max(self._strategy.max_idletime_s, _CERTAIN_S))
