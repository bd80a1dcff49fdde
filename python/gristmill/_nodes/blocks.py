"""The blocks of one provider: jobs of a batch system whose nodes run agents."""

from __future__ import annotations

import dataclasses
import logging
import threading

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
    #: What the provider calls it; ``None``: it could not be submitted.
    job: Any
    status: BlockStatus
    #: Whether one of its nodes has ever joined.
    has_joined: bool = False
    #: How many workers its nodes have that are there now; 0: none of them is.
    workers: int = 0
    #: The state that somebody was told of last.
    told: BlockState | None = None
    #: Since when its nodes have no task; ``None``: they have some, or are not there.
    idle_since: float | None = None


@dataclasses.dataclass
class Change:
    """What a look at the nodes has shown."""

    #: A block has its first node again, or for the first time.
    has_gained: bool = False
    #: A block has lost its last node.
    has_lost: bool = False


class Blocks:
    """Submits jobs, knows what became of them, and takes them away.

    One thread changes them; any may look.

    :param provider: any with the interface of Parsl's.
    :param label: what the jobs' names begin with.
    :param command: gives the command that is to run on each node of a block, by the block's number.
    """

    def __init__(self, provider: Any, label: str, command: Callable[[str], str]) -> None:
        self._provider = provider
        self.label = label
        self._command = command
        self._lock = threading.Lock()
        self._blocks: dict[str, Block] = {}

    def submit(self) -> bool:
        """Submits one block; says whether the provider took it."""
        number = str(len(self._blocks))
        try:
            job = self._provider.submit(
                self._command(number), 1, f"parsl.{self.label}.block-{number}"
            )
            if not job:
                raise RuntimeError("the provider gave no job")
        except Exception as error:  # whatever a provider raises is a block that failed
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
        """Learns which nodes are there, and which have nothing to do."""
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
        """How many workers a block has, on average of those that are there; ``None`` while there is none."""
        counts = [block.workers for block in self.living() if block.workers]
        return sum(counts) / len(counts) if counts else None

    def idle(self, since: float) -> list[Block]:
        """Those that have had nothing to do since then, longest first."""
        found = [(block.idle_since, block) for block in self.living()]
        idle = [(time, block) for time, block in found if time is not None and time <= since]
        return [block for _, block in sorted(idle, key=lambda one: one[0])]

    def poll(self, joined: Callable[[], Iterable[str]]) -> int:
        """Asks the provider what became of the jobs; gives how many ended before a node of theirs had joined.

        :param joined: gives the names of the nodes that have joined, also of those that are gone.
        """
        living = self.living()
        if not living:
            return 0
        try:
            answers = self._provider.status([block.job for block in living])
        except Exception as error:  # a batch system that is busy now will answer later
            _log.warning("the batch system does not say what became of its jobs: %s", error)
            return 0
        # Not before: a node may join, work and die with its job between two looks at the nodes.
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
            gone = self._provider.cancel([block.job for block in blocks])
        except Exception as error:  # it is tried again when they are still there later
            _log.warning("the batch system does not cancel jobs: %s", error)
            return
        for block, is_gone in zip(blocks, gone, strict=True):
            if is_gone:
                block.status = BlockStatus(BlockState.SCALED_IN)

    def living(self) -> list[Block]:
        """Those that have not ended, oldest first."""
        with self._lock:
            return [block for block in self._blocks.values() if not block.status.terminal]

    def statuses(self) -> dict[str, BlockStatus]:
        """What is known of each block that there ever was."""
        with self._lock:
            return {block.number: block.status for block in self._blocks.values()}

    def take_changes(self) -> dict[str, BlockStatus]:
        """The blocks that have come into another state since this was asked last."""
        with self._lock:
            changed = [one for one in self._blocks.values() if one.told is not one.status.state]
        for block in changed:
            block.told = block.status.state
        return {block.number: block.status for block in changed}

    def jobs(self) -> dict[str, Any]:
        """What the provider calls each block that it took."""
        with self._lock:
            return {one.number: one.job for one in self._blocks.values() if one.job is not None}


def _corrected(block: Block) -> BlockStatus:
    """A block's status: batch systems take a moment to notice that a job has begun, of which a node has joined."""
    if block.workers and block.status.state is BlockState.PENDING:
        return dataclasses.replace(block.status, state=BlockState.RUNNING)
    return block.status


def name_of_node(number: str, host: str) -> str:
    """What the node of a block is called: the client tells by it which block has joined."""
    return f"{host}.block-{number}"


def _block_of(name: str) -> str:
    return name.rpartition(".block-")[2] if ".block-" in name else ""
