"""The blocks of one provider: jobs of a batch system whose nodes run agents."""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections.abc import Iterable, Mapping

from gristmill import _options
from gristmill._nodes.block_status import (
    BlockState,
    BlockStatus,
    in_words,
    read_status,
)
from gristmill._nodes.new_texts import NewTexts
from gristmill._nodes.outside_calls import CallLimit, OutsideCalls
from gristmill._reasons import reason_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence
    from typing import Any

    from gristmill._nodes.view import NodeView

_log = logging.getLogger("gristmill.nodes")

#: Providers themselves end a command after ten seconds to a minute; a cloud needs minutes to start a machine. A job
#: that is not cancelled costs its user more than the last wait.
_LIMITS = {
    "submit": CallLimit(600.0, 30.0),
    "status": CallLimit(120.0, 10.0),
    "cancel": CallLimit(120.0, 30.0, is_last=True),
}

#: Ended blocks that are remembered. A program that runs for weeks may submit many more.
_ENDED_MAX = 1000


@dataclasses.dataclass
class Block:
    """One job."""

    number: str
    #: The provider's id of the job, or ``None`` if the job could not be submitted.
    job: Any
    status: BlockStatus
    #: True if one of its nodes has ever joined.
    has_joined: bool = False
    #: The number of workers of its connected nodes; 0 if no node is connected.
    workers: int = 0
    #: The state that was last reported by ``take_changes``.
    reported: BlockState | None = None
    #: The time since which its nodes have no task; ``None`` if they have tasks or are not connected.
    idle_since: float | None = None
    #: True if its job was cancelled because it is not needed.
    is_cancelled: bool = False
    #: The number of polls in a row that reported its end, and the first of their reports.
    ends_told: int = 0
    first_end: BlockStatus | None = None

    def is_credible(self, status: BlockStatus) -> bool:
        """Returns whether a reported status is taken over.

        Batch systems report for a moment that a job has ended which waits or works: they have lost it from their
        tables, or are being restarted. So an end counts only while no node is connected, and, if none ever was, at its
        second report.
        """
        if not status.terminal:
            self.ends_told = 0
            return True
        self.ends_told += 1
        if self.ends_told == 1:
            self.first_end = status
        return not self.workers and (self.has_joined or self.ends_told > 1)


@dataclasses.dataclass
class Change:
    """The changes that one look at the nodes has found."""

    #: True if a block has its first node, or has a node again.
    has_gained: bool = False
    #: True if a block has lost its last node.
    has_lost: bool = False


class Blocks:
    """The jobs of one provider: submits them, tracks their states and cancels them.

    One thread changes them; any thread may read. Of ended ones, the last ``_ENDED_MAX`` are remembered.

    :param provider: any object with the interface of Parsl's providers.
    :param label: the prefix of the jobs' names.
    :param command: returns the command that runs on each node of a block, given the block's number.
    """

    def __init__(self, provider: Any, label: str, command: Callable[[str], str]) -> None:
        self._provider = provider
        self.calls = OutsideCalls("the provider", _LIMITS)
        self.label = label
        #: The reason why the batch system's last answer was of no use; empty without one.
        self.trouble = ""
        self._texts = NewTexts()
        self._command = command
        #: Reentrant, because a signal handler may read the blocks while it interrupts a read.
        self._lock = threading.RLock()
        self._blocks: dict[str, Block] = {}
        #: The number of blocks ever submitted.
        self._count = 0

    def submit(self) -> bool:
        """Submits one block. Returns whether the provider accepted it."""
        number = str(self._count)
        name = f"parsl.{self.label}.block-{number}"
        try:
            job = self._ask("submit", self._command(number), 1, name, late=self._drop)
            if not job:
                raise RuntimeError("the provider returned no job")
        except Exception as error:  # any exception of a provider means that the block failed
            reason = f"it could not be submitted: {reason_of(error)}"
            block = Block(number, None, BlockStatus(BlockState.FAILED, reason))
            _log.warning("block %s, named %s, failed: %s", number, name, reason)
        else:
            block = Block(number, job, BlockStatus(BlockState.PENDING))
            _log.info("block %s is job %s", number, job)
        with self._lock:
            self._count += 1
            self._blocks[number] = block
            self._forget_old()
        return block.job is not None

    def _forget_old(self) -> None:
        """Forgets the oldest of too many ended blocks, but not the only one that has had a node.

        An error handler must still see that blocks have worked.
        """
        ended = [block for block in self._blocks.values() if block.status.terminal]
        worked = next((block for block in ended if block.has_joined), None)
        for block in [one for one in ended if one is not worked][: max(0, len(ended) - _ENDED_MAX)]:
            del self._blocks[block.number]

    def _ask(self, name: str, *arguments: Any, **terms: Any) -> Any:
        """Calls a method of the provider. Raises its exception, and ``TimeoutError`` after its limit."""
        return self.calls.call(name, getattr(self._provider, name), *arguments, **terms)

    def _drop(self, job: Any) -> None:
        """Cancels a job whose submission took too long: its block counts as failed."""
        try:
            if job:
                self._ask("cancel", [job], waits=True)
        except Exception as error:
            _log.warning("job %s is not needed and was not cancelled: %s", job, reason_of(error))

    def see(self, nodes: Sequence[NodeView], now: float) -> Change:
        """Records which nodes are connected and which have no tasks."""
        of_block: dict[str, list[NodeView]] = {}
        for node in nodes:
            of_block.setdefault(_block_of(node.name), []).append(node)
        change = Change()
        for block in self._living_or_among(of_block):
            found = of_block.get(block.number, [])
            change.has_gained |= bool(found) and not block.workers
            change.has_lost |= bool(block.workers) and not found
            block.workers = sum(node.workers for node in found)
            block.has_joined |= bool(found)
            block.status = _corrected(block)
            if not found or any(node.tasks for node in found):
                block.idle_since = None
            elif block.idle_since is None:
                block.idle_since = now
        return change

    def _living_or_among(self, connected: Container[str]) -> list[Block]:
        """Returns the living blocks, and those that live again: their nodes are connected despite a reported end."""
        with self._lock:
            blocks = list(self._blocks.values())
        for block in blocks:
            is_ended = block.status.terminal and block.job is not None and not block.is_cancelled
            if is_ended and block.number in connected:
                _log.warning(
                    "block %s works, although the batch system reported that its job is %s",
                    block.number,
                    block.status.status_name,
                )
                block.status = BlockStatus(BlockState.RUNNING, has_joined=True)
                block.ends_told = 0
        return [block for block in blocks if not block.status.terminal]

    def workers_per_block(self) -> float | None:
        """Returns the average number of workers of blocks with connected nodes, or ``None`` without such a block."""
        counts = [block.workers for block in self.living() if block.workers]
        return sum(counts) / len(counts) if counts else None

    def idle(self, since: float) -> list[Block]:
        """Returns the blocks that have had no task since that time, longest idle first."""
        found = [(block.idle_since, block) for block in self.living()]
        idle = [(time, block) for time, block in found if time is not None and time <= since]
        return [block for _, block in sorted(idle, key=lambda one: one[0])]

    def poll(self, joined: Callable[[], Iterable[str]]) -> int:
        """Asks the provider for the jobs' states. Returns how many jobs ended before any of their nodes had joined.

        :param joined: returns the names of all nodes that have joined, including those that have left.
        """
        living = self.living()
        if not living:
            return 0
        try:
            jobs = [block.job for block in living]
            answers = _as_many(self._ask("status", jobs), len(jobs), "states")
        except Exception as error:  # a busy batch system answers a later poll
            self._note_trouble(f"does not report the states of its jobs: {reason_of(error)}")
            return 0
        # Called after the poll: a node may join, work and die with its job between two looks at the nodes.
        come = {_block_of(name) for name in joined()}
        trouble = ""
        for block, theirs in zip(living, answers, strict=True):
            block.has_joined |= block.number in come
            try:
                _take_over(block, read_status(theirs))
            except Exception as error:
                trouble = f"reports no state of job {block.job}: {reason_of(error)}"
        self._note_trouble(trouble)
        return sum(block.status.state is BlockState.MISSING for block in living)

    def are_ends_doubted(self) -> bool:
        """Returns whether another poll is needed to find out whether a job has ended."""
        return any(block.ends_told and not block.workers for block in self.living())

    def take_away(self, blocks: Sequence[Block]) -> bool:
        """Cancels the jobs of blocks that are not needed. Returns whether the batch system answered."""
        if not blocks:
            return True
        try:
            jobs = [block.job for block in blocks]
            gone = _as_many(self._ask("cancel", jobs), len(jobs), "answers")
        except Exception as error:  # cancelled again later if they still run
            self._note_trouble(f"does not cancel jobs: {reason_of(error)}")
            return False
        self._note_trouble("")
        for block, is_gone in zip(blocks, gone, strict=True):
            if is_gone:
                block.is_cancelled = True
                block.status = BlockStatus(BlockState.SCALED_IN, has_joined=block.has_joined)
        return True

    def _note_trouble(self, text: str) -> None:
        """Keeps why the batch system's answer was of no use. Logs each kind of text once until one is of use."""
        if not text:
            self._texts.clear()
        elif self._texts.is_new(text):
            _log.warning("the batch system %s", text)
        self.trouble = text

    def living(self) -> list[Block]:
        """Returns the blocks that have not ended, oldest first."""
        with self._lock:
            return [block for block in self._blocks.values() if not block.status.terminal]

    def statuses(self) -> dict[str, BlockStatus]:
        """Returns the statuses of the blocks by number: of all that live, and of the last ones that have ended."""
        with self._lock:
            return {block.number: block.status for block in self._blocks.values()}

    def without_nodes(self) -> list[tuple[Block, str]]:
        """Returns the blocks that have ended or have no connected node, and their states in words."""
        with self._lock:
            blocks = list(self._blocks.values())
        return [
            (block, in_words(block.status) if block.status.terminal else _awaited(block))
            for block in blocks
            if block.status.terminal or not block.workers
        ]

    def take_changes(self) -> dict[str, BlockStatus]:
        """Returns the blocks whose state has changed since the last call."""
        with self._lock:
            changed = [one for one in self._blocks.values() if one.reported is not one.status.state]
        for block in changed:
            block.reported = block.status.state
        return {block.number: block.status for block in changed}

    def jobs(self) -> dict[str, Any]:
        """Returns the provider's job ids by block number, of those blocks in ``statuses`` that it accepted."""
        with self._lock:
            return {one.number: one.job for one in self._blocks.values() if one.job is not None}


def _as_many(answers: Any, count: int, what: str) -> list[Any]:
    """Returns a provider's answers as a list. Raises ``ValueError`` if it has not one for each job."""
    is_list = isinstance(answers, Iterable) and not isinstance(answers, (str, bytes, Mapping))
    if not is_list:
        raise ValueError(f"it gave {_options.shown(answers)} instead of a list of {what}")
    found = list(answers)
    if len(found) != count:
        raise ValueError(f"it gave {len(found)} {what} for {count} jobs")
    return found


def _take_over(block: Block, status: BlockStatus) -> None:
    """Takes over a reported status if it is credible."""
    status = dataclasses.replace(status, has_joined=block.has_joined)
    if not block.is_credible(status):
        return
    if status.terminal and block.first_end is not None:
        # The output may have been deleted since.
        status = dataclasses.replace(
            status,
            stdout_summary=status.stdout_summary or block.first_end.stdout_summary,
            stderr_summary=status.stderr_summary or block.first_end.stderr_summary,
        )
    if status.terminal and not block.has_joined:
        status = dataclasses.replace(status, state=BlockState.MISSING)
    if status.terminal:
        _log.info("block %s has ended: %s", block.number, status.status_name)
    block.status = status
    block.status = _corrected(block)


def _awaited(block: Block) -> str:
    """Returns in words what a living block without a connected node is waited for."""
    text = in_words(block.status).replace("its job", f"its job {block.job}", 1)
    now = "is connected now" if block.has_joined else "has joined yet"
    return f"{text}, and none of its nodes {now}"


def _corrected(block: Block) -> BlockStatus:
    """Returns the block's status, corrected to RUNNING if a node has joined: batch systems report that late."""
    if block.workers and block.status.state is BlockState.PENDING:
        return dataclasses.replace(block.status, state=BlockState.RUNNING)
    return block.status


def name_of_node(number: str, host: str) -> str:
    """Returns the name of a block's node. The client reads the block's number from it."""
    return f"{host}.block-{number}"


def _block_of(name: str) -> str:
    return name.rpartition(".block-")[2] if ".block-" in name else ""
