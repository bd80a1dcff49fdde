"""Status of a block's job in the terms of Parsl's providers, and the reaction to failed jobs."""

from __future__ import annotations

import dataclasses
import enum
import os

from gristmill import _options
from gristmill._errors import GristmillError
from gristmill._reasons import reason_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    #: A function that is called after each poll of the jobs, with an object that has ``provider``, ``label`` and
    #: ``set_bad_state_and_fail_all(exception)``, and with the status of each block by its id.
    ErrorHandler = Callable[[Any, Mapping[str, "BlockStatus"]], object]


#: The size of a job's last output that is kept to explain its end, bytes; of each output that a provider gives as a
#: text, characters.
_OUTPUT_MAX = 2000
#: The size of a message of a provider that is kept, characters.
_MESSAGE_MAX = 2000


class BlockState(enum.IntEnum):
    """The states of a job, with Parsl's numbers, so that code that compares Parsl's states can compare these too."""

    UNKNOWN = 0
    PENDING = 1
    RUNNING = 2
    CANCELLED = 3
    COMPLETED = 4
    FAILED = 5
    TIMEOUT = 6
    HELD = 7
    #: A job that ended before any of its nodes joined.
    MISSING = 8
    #: A job that was cancelled because it was not needed.
    SCALED_IN = 9


_LIVING = frozenset({BlockState.UNKNOWN, BlockState.PENDING, BlockState.RUNNING, BlockState.HELD})
_FAILED = frozenset({BlockState.FAILED, BlockState.MISSING})


@dataclasses.dataclass(frozen=True)
class BlockStatus:
    """The state of a block, and the output that its job left behind."""

    state: BlockState
    message: str | None = None
    exit_code: int | None = None
    stdout_summary: str | None = None
    stderr_summary: str | None = None
    #: True if one of its nodes has ever joined.
    has_joined: bool = False

    @property
    def terminal(self) -> bool:
        """True if the job has ended."""
        return self.state not in _LIVING

    @property
    def status_name(self) -> str:
        """The name of the state."""
        return self.state.name


def read_status(theirs: Any) -> BlockStatus:
    """Converts a provider's job status, and reads the files that it names at once because they may be deleted later.

    Raises ``ValueError`` for an object without a state. What cannot be read of the rest is left out.
    """
    try:
        number = theirs.state
    except AttributeError:
        raise ValueError(f"it gave {_options.shown(theirs)}") from None
    try:
        state = BlockState(int(number))
    except Exception:
        state = BlockState.UNKNOWN
    message = _text(getattr(theirs, "message", None))
    message = message and message[:_MESSAGE_MAX]
    if state in _LIVING:
        return BlockStatus(state, message)
    code = getattr(theirs, "exit_code", None)
    return BlockStatus(
        state,
        message,
        code if isinstance(code, int) else None,
        _output(theirs, "stdout"),
        _output(theirs, "stderr"),
    )


def _output(theirs: Any, name: str) -> str | None:
    """Returns what a job has written, in any encoding."""
    try:
        text = _text(getattr(theirs, f"{name}_summary", None))
        return text and text[-_OUTPUT_MAX:]
    except Exception as error:  # Parsl reads the file as UTF-8
        try:
            return _end_of_file(getattr(theirs, f"{name}_path", None))
        except Exception:
            return f"(it cannot be read: {reason_of(error)})"


def _end_of_file(path: Any) -> str:
    with open(path, "rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _OUTPUT_MAX))
        return file.read().decode(errors="replace")


def _text(value: Any) -> str | None:
    """Returns a text of a provider as one that can be written anywhere."""
    if value is None:
        return None
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return str(value).encode(errors="backslashreplace").decode()


class BlocksFailedError(GristmillError):
    """An error raised if all blocks fail before a node has joined. The message has the last output of each job."""

    code = "blocks_failed"


def fail_when_all_failed(blocks: Any, status: Mapping[str, BlockStatus]) -> None:
    """Fails the executor when all blocks, and at least ``init_blocks``, have failed and none ever had a node.

    A block that has had a node does not count as failed, unlike in Parsl: one of its nodes may have died.
    """
    failed = [one for one in status.values() if one.state in _FAILED and not one.has_joined]
    if len(failed) == len(status) >= max(1, blocks.provider.init_blocks):
        blocks.set_bad_state_and_fail_all(BlocksFailedError(describe(status)))


def handler_of(choice: bool | ErrorHandler) -> ErrorHandler:
    """Returns the error handler: ``True`` stands for one that gives up when all blocks fail, ``False`` for none."""
    if choice is True:
        return fail_when_all_failed
    return choice or (lambda blocks, status: None)


def describe(status: Mapping[str, BlockStatus]) -> str:
    """Returns the end of each failed block in words."""
    failed = {number: one for number, one in status.items() if one.state in _FAILED}
    return "\n".join(f"block {number}: {in_words(one)}" for number, one in failed.items())


def in_words(status: BlockStatus) -> str:
    """Returns in words how a block has ended and what its job has left behind."""
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
