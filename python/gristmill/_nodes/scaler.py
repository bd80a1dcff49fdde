"""Scaling of a provider's blocks: adds blocks when tasks wait, removes idle blocks, and gives up after failures."""

from __future__ import annotations

import logging
import math
import threading
import time

from gristmill import _forked
from gristmill._nodes.opening import BEAT_S
from gristmill._nodes.pauses import Pauses
from gristmill._nodes.scaling import Rate, Strategy
from gristmill._reasons import reason_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from gristmill._nodes.block_status import BlockStatus, ErrorHandler
    from gristmill._nodes.blocks import Block, Blocks
    from gristmill._nodes.view import ClientView

    BlockCallback = Callable[[Mapping[str, BlockStatus]], object]

_log = logging.getLogger("gristmill.nodes")

#: The shortest time between two looks at the tasks, and between two polls of the batch system, seconds. Both double
#: while nothing happens.
_LOOK_S, _POLL_S = 0.05, 2.0
#: The time after which a node has certainly reported a task that it got, seconds.
_CERTAIN_S = 2 * BEAT_S
#: The number of requests to end jobs that are not needed, unless the batch system confirms earlier.
_CANCELS_MAX = 3
#: The time after which tasks fail because a call of the provider does not return, while there is no node, seconds.
_SILENCE_MAX_S = 600.0
#: The time limit for the end, seconds: longer than that of the provider's last calls.
_END_S = 120.0


class Scaler:
    """A thread that scales until no node is needed.

    :param blocks: the blocks to scale.
    :param provider: the provider of the blocks.
    :param strategy: decides how many blocks there should be.
    :param rate: limits how many jobs are submitted when.
    :param handler: called with all blocks after each poll; may call ``set_bad_state_and_fail_all``.
    :param client: the executor whose tasks the blocks run.
    :param period_s: the longest time between two looks at the tasks, seconds.
    :param on_change: called with the blocks whose state has changed.
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
        on_change: BlockCallback | None = None,
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
        self._on_change = on_change
        # Unlimited tries: after any number of failed blocks the next one may work.
        self._pauses = Pauses(failures_max=1 << 30, span_max_s=math.inf)
        self._wanted = 0
        self._submit_at = 0.0
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gristmill-blocks", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def end(self) -> None:
        """Cancels all blocks and waits for the thread, for a limited time."""
        self._ends.set()
        self.blocks.calls.begin_end()
        self._thread.join(_END_S)
        if self._thread.is_alive():
            _log.warning("the blocks of %s have not ended after %g s", self.label, _END_S)

    @property
    def bad_state_is_set(self) -> bool:
        """True if it has given up."""
        return self.executor_exception is not None

    def set_bad_state_and_fail_all(self, exception: BaseException) -> None:
        """Gives up: no more jobs are submitted, the running ones end, and every task fails."""
        self.executor_exception = exception

    def _run(self) -> None:
        try:
            self._look_after()
        except BaseException as error:  # without this thread tasks would wait forever
            _log.exception("blocks can no longer be managed")
            self.set_bad_state_and_fail_all(error)
        try:
            self._cancel_all()
            self._tell()
        finally:
            if self.executor_exception is not None:
                self._client.give_up(reason_of(self.executor_exception))

    def _cancel_all(self) -> None:
        """Cancels all jobs that are left. Logs those that may still run."""
        self.blocks.calls.begin_end()
        for _ in range(_CANCELS_MAX):
            if not self.blocks.take_away(self.blocks.living()) and self.blocks.calls.is_hanging():
                break
        if left := [str(block.job) for block in self.blocks.living()]:
            # Without a trouble, most of them have ended by themselves: their agents have left.
            _log.log(
                logging.WARNING if self.blocks.trouble else logging.INFO,
                "the batch system has not cancelled the jobs %s. Cancel those that still run. It %s",
                ", ".join(left),
                self.blocks.trouble or "has answered that it cannot",
            )

    def _look_after(self) -> None:
        look_s, poll_s = _LOOK_S, _POLL_S
        poll_at = time.monotonic() + poll_s
        while True:
            now = time.monotonic()
            change = self.blocks.see(self._client.nodes(), now)
            if change.has_gained:
                self._pauses.failures = 0
            # The batch system takes a moment to notice that a job has begun or ended.
            if self._scale(now) or change.has_lost:
                look_s, poll_s, poll_at = _LOOK_S, _POLL_S, now + _POLL_S
            elif now >= poll_at:
                self._poll(now)
                poll_s = min(2 * poll_s, max(_POLL_S, self._polling_interval()))
                if self.blocks.are_ends_doubted():
                    look_s, poll_s = _LOOK_S, _POLL_S
                poll_at = now + poll_s
            self._tell()
            self._give_up_on_silence()
            if self.bad_state_is_set or self._ends.wait(look_s) or self._client.is_over():
                return
            look_s = min(2 * look_s, self._period_s)

    def _polling_interval(self) -> float:
        """Returns the provider's time between two polls, seconds; 0 if it has none."""
        try:
            return float(self.provider.status_polling_interval)
        except Exception:
            return 0.0

    def _give_up_on_silence(self) -> None:
        """Gives up if a call of the provider does not return: then no block is ever added, and no end noticed."""
        calls = self.blocks.calls
        if calls.hangs_s() > _SILENCE_MAX_S and not self._client.nodes():
            self.set_bad_state_and_fail_all(TimeoutError(calls.waiting()))

    def _tell(self) -> None:
        changes = self.blocks.take_changes()
        if changes and self._on_change is not None:
            try:
                _forked.guarded(self._on_change, changes)
            except BaseException:
                _log.exception("the states of blocks could not be reported")

    def _poll(self, now: float) -> None:
        if self.blocks.poll(self._client.joined):
            self._pause(now)
        self._handle()

    def _pause(self, now: float) -> None:
        """Delays the next submission because the last one failed."""
        self._submit_at = now + (self._pauses.after(0.0) or 0.0)

    def _handle(self) -> None:
        try:
            _forked.guarded(self._handler, self, self.blocks.statuses())
        except BaseException as error:
            _log.exception("the handler of block errors failed")
            self.set_bad_state_and_fail_all(error)

    def _scale(self, now: float) -> bool:
        """Adds blocks one job at a time, or removes blocks, as the strategy says. Returns whether it did either."""
        living, tasks = self.blocks.living(), self._client.tasks()
        count, workers = len(living) + self._wanted, self.blocks.workers_per_block()
        change = self._strategy.decide(tasks, count, now, workers)
        if change < 0:
            return self._take_away(-change, tasks > 0, now)
        self._wanted += change
        if not self._wanted or now < self._submit_at or self._rate.wait_s(now) > 0:
            return False
        if self.blocks.calls.is_hanging():
            return False
        self._wanted -= 1
        self._rate.note(now)
        if not self.blocks.submit():
            self._pause(now)
            self._handle()
        return True

    def _take_away(self, count: int, are_tasks_there: bool, now: float) -> bool:
        """Removes blocks, only idle ones while there are tasks. Returns whether it removed any."""
        unsubmitted = min(self._wanted, count)
        self._wanted -= unsubmitted
        if are_tasks_there:
            spare = self._idle(now)
        else:
            # Blocks that have not started first, then the youngest: the older ones have proved to work.
            living = self.blocks.living()
            spare = sorted(living, key=lambda block: (block.has_joined, -int(block.number)))
        chosen = spare[: count - unsubmitted]
        self.blocks.take_away(chosen)
        return bool(chosen)

    def _idle(self, now: float) -> list[Block]:
        """Returns the blocks that have certainly been idle for long enough."""
        known = sum(node.tasks for node in self._client.nodes())
        if known < self._client.tasks_on_nodes():
            return []  # some tasks left after the nodes' last heartbeats: their nodes are unknown
        return self.blocks.idle(now - max(self._strategy.max_idletime_s, _CERTAIN_S))
