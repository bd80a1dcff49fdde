"""The blocks of one provider: jobs of a batch system whose nodes run agents."""

from __future__ import annotations

import dataclasses
import logging
import threading

from gristmill._nodes.block_status import BlockState, BlockStatus, read_status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

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
    #: Whether one of its nodes is there now.
    is_there: bool = False


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

    def see(self, nodes: Sequence[str]) -> Change:
        """Learns which nodes are there."""
        there = {number for name in nodes for number in [_block_of(name)] if number is not None}
        change = Change()
        for block in self.living():
            is_there = block.number in there
            change.has_gained |= is_there and not block.is_there
            change.has_lost |= block.is_there and not is_there
            block.is_there = is_there
            block.has_joined |= is_there
        return change

    def poll(self) -> int:
        """Asks the provider what became of the jobs; gives how many ended before a node of theirs had joined."""
        living = self.living()
        if not living:
            return 0
        try:
            answers = self._provider.status([block.job for block in living])
        except Exception as error:  # a batch system that is busy now will answer later
            _log.warning("the batch system does not say what became of its jobs: %s", error)
            return 0
        for block, theirs in zip(living, answers, strict=True):
            status = dataclasses.replace(read_status(theirs), has_joined=block.has_joined)
            if status.terminal and not block.has_joined:
                status = dataclasses.replace(status, state=BlockState.MISSING)
            if status.terminal:
                _log.info("block %s has ended: %s", block.number, status.status_name)
            block.status = status
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

    def jobs(self) -> dict[str, Any]:
        """What the provider calls each block that it took."""
        with self._lock:
            return {one.number: one.job for one in self._blocks.values() if one.job is not None}


def name_of_node(number: str, host: str) -> str:
    """What the node of a block is called: the client tells by it which block has joined."""
    return f"{host}.block-{number}"


def _block_of(name: str) -> str | None:
    _, found, number = name.rpartition(".block-")
    return number if found else None
