"""What is known of a block's job, in the words of Parsl's providers, and what to do when jobs fail."""

from __future__ import annotations

import dataclasses
import enum

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    #: Called after each look at the jobs, with an object that has ``provider``, ``label`` and
    #: ``set_bad_state_and_fail_all(exception)``, and with the status of each block by its id.
    ErrorHandler = Callable[[Any, Mapping[str, "BlockStatus"]], object]


class BlockState(enum.IntEnum):
    """The states of a job, with the numbers that they have in Parsl: what compares them there compares these too."""

    UNKNOWN = 0
    PENDING = 1
    RUNNING = 2
    CANCELLED = 3
    COMPLETED = 4
    FAILED = 5
    TIMEOUT = 6
    HELD = 7
    #: It has ended, and none of its nodes has joined.
    MISSING = 8
    #: It was taken away because it was not needed.
    SCALED_IN = 9


_LIVING = frozenset({BlockState.UNKNOWN, BlockState.PENDING, BlockState.RUNNING, BlockState.HELD})
_FAILED = frozenset({BlockState.FAILED, BlockState.MISSING})


@dataclasses.dataclass(frozen=True)
class BlockStatus:
    """The state of a block, and what its job left behind."""

    state: BlockState
    message: str | None = None
    exit_code: int | None = None
    stdout_summary: str | None = None
    stderr_summary: str | None = None
    #: Whether one of its nodes has ever joined.
    has_joined: bool = False

    @property
    def terminal(self) -> bool:
        """Whether the job has ended."""
        return self.state not in _LIVING

    @property
    def status_name(self) -> str:
        """The name of the state."""
        return self.state.name


def read_status(theirs: Any) -> BlockStatus:
    """What a provider says, as it is now: the files that it names may be gone later."""
    try:
        state = BlockState(int(theirs.state))
    except ValueError:
        state = BlockState.UNKNOWN
    if state in _LIVING:
        return BlockStatus(state, theirs.message)
    words = theirs.stdout_summary, theirs.stderr_summary
    return BlockStatus(state, theirs.message, theirs.exit_code, *words)


class TooManyBlocksFailed(Exception):
    """No block came up; the message has what each of their jobs left behind."""


def fail_when_all_failed(blocks: Any, status: Mapping[str, BlockStatus]) -> None:
    """Gives up when as many blocks as there were at first have failed, and none has ever had a node.

    One that has had some is no sign that blocks cannot work, as Parsl would have it: a node of it may have died.
    """
    failed = [one for one in status.values() if one.state in _FAILED and not one.has_joined]
    if len(failed) == len(status) >= max(1, blocks.provider.init_blocks):
        blocks.set_bad_state_and_fail_all(TooManyBlocksFailed(describe(status)))


def handler_of(choice: bool | ErrorHandler) -> ErrorHandler:
    """The handler that is meant: ``True`` gives up when all blocks fail, ``False`` never does."""
    if choice is True:
        return fail_when_all_failed
    return choice or (lambda blocks, status: None)


def describe(status: Mapping[str, BlockStatus]) -> str:
    """What became of the blocks that failed."""
    failed = {number: one for number, one in status.items() if one.state in _FAILED}
    return "\n".join(f"block {number}: {in_words(one)}" for number, one in failed.items())


def in_words(status: BlockStatus) -> str:
    """How a block has ended, and what its job has left behind."""
    if status.state is BlockState.MISSING:
        text = "its job ended before any of its nodes joined"
    else:
        text = f"its job is {status.status_name.lower().replace('_', ' ')}"
    if status.message:
        text += f": {status.message}"
    if status.exit_code is not None:
        text += f", exit status {status.exit_code}"
    for name, words in (("output", status.stdout_summary), ("errors", status.stderr_summary)):
        if words and words.strip():
            text += f"\n{name} of the job:\n{words.strip()}"
    return text
