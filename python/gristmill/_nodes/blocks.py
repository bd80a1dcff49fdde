"""The blocks of one provider: jobs of a batch system whose nodes run agents."""

from __future__ import annotations

import dataclasses
import logging
import threading

from gristmill import _forked
from gristmill._nodes.block_status import BlockState, BlockStatus, read_status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from gristmill._nodes.view import NodeView

_log = logging.getLogger("gristmill.nodes")


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


@dataclasses.dataclass
class Change:
    """The changes that one look at the nodes has found."""

    #: True if a block has its first node, or has a node again.
    has_gained: bool = False
    #: True if a block has lost its last node.
    has_lost: bool = False


class Blocks:
    """The jobs of one provider: submits them, tracks their states and cancels them.

    One thread changes them; any thread may read.

    :param provider: any object with the interface of Parsl's providers.
    :param label: the prefix of the jobs' names.
    :param command: returns the command that runs on each node of a block, given the block's number.
    """

    def __init__(self, provider: Any, label: str, command: Callable[[str], str]) -> None:
        self._provider = provider
        self.label = label
        self._command = command
        #: Reentrant, because a signal handler may read the blocks while it interrupts a read.
        self._lock = threading.RLock()
        self._blocks: dict[str, Block] = {}

    def submit(self) -> bool:
        """Submits one block. Returns whether the provider accepted it."""
        number = str(len(self._blocks))
        try:
            name = f"parsl.{self.label}.block-{number}"
            job = _forked.guarded(self._provider.submit, self._command(number), 1, name)
            if not job:
                raise RuntimeError("the provider returned no job")
        except Exception as error:  # any exception of a provider means that the block failed
            status = BlockStatus(BlockState.FAILED, f"it could not be submitted: {error}")
            block = Block(number, None, status)
            _log.warning("block %s could not be submitted: %s", number, error)
        else:
            block = Block(number, job, BlockStatus(BlockState.PENDING))
            _log.info("block %s is job %s", number, job)
        with self._lock:
            self._blocks[number] = block
        return block.job is not None

    def see(self, nodes: Sequence[NodeView], now: float) -> Change:
        """Records which nodes are connected and which have no tasks."""
        of_block: dict[str, list[NodeView]] = {}
        for node in nodes:
            of_block.setdefault(_block_of(node.name), []).append(node)
        change = Change()
        for block in self.living():
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
            answers = _forked.guarded(self._provider.status, jobs)
        except Exception as error:  # a busy batch system answers a later poll
            _log.warning("the batch system does not report the states of its jobs: %s", error)
            return 0
        # Called after the poll: a node may join, work and die with its job between two looks at the nodes.
        come = {_block_of(name) for name in joined()}
        for block, theirs in zip(living, answers, strict=True):
            block.has_joined |= block.number in come
            status = dataclasses.replace(read_status(theirs), has_joined=block.has_joined)
            if status.terminal and not block.has_joined:
                status = dataclasses.replace(status, state=BlockState.MISSING)
            if status.terminal:
                _log.info("block %s has ended: %s", block.number, status.status_name)
            block.status = status
            block.status = _corrected(block)
        return sum(block.status.state is BlockState.MISSING for block in living)

    def take_away(self, blocks: Sequence[Block]) -> None:
        """Cancels the jobs of blocks that are not needed."""
        if not blocks:
            return
        try:
            gone = _forked.guarded(self._provider.cancel, [block.job for block in blocks])
        except Exception as error:  # cancelled again later if they still run
            _log.warning("the batch system does not cancel jobs: %s", error)
            return
        for block, is_gone in zip(blocks, gone, strict=True):
            if is_gone:
                block.status = BlockStatus(BlockState.SCALED_IN)

    def living(self) -> list[Block]:
        """Returns the blocks that have not ended, oldest first."""
        with self._lock:
            return [block for block in self._blocks.values() if not block.status.terminal]

    def statuses(self) -> dict[str, BlockStatus]:
        """Returns the status of each block ever submitted, by block number."""
        with self._lock:
            return {block.number: block.status for block in self._blocks.values()}

    def take_changes(self) -> dict[str, BlockStatus]:
        """Returns the blocks whose state has changed since the last call."""
        with self._lock:
            changed = [one for one in self._blocks.values() if one.reported is not one.status.state]
        for block in changed:
            block.reported = block.status.state
        return {block.number: block.status for block in changed}

    def jobs(self) -> dict[str, Any]:
        """Returns the provider's job id of each block that it accepted, by block number."""
        with self._lock:
            return {one.number: one.job for one in self._blocks.values() if one.job is not None}


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
