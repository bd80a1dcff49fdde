"""The states of a task of the data-flow kernel, by Parsl's names and numbers."""

from __future__ import annotations

from enum import IntEnum


class States(IntEnum):
    """The state of a task. ``running`` and ``running_ended`` occur in the monitoring database only."""

    pending = 0
    running = 2
    exec_done = 3
    failed = 4
    dep_fail = 5
    launched = 7
    fail_retryable = 8
    memo_done = 9
    joining = 10
    running_ended = 11
    #: Only Gristmill has this state: Parsl's tasks cannot be cancelled.
    cancelled = 12

    def __str__(self) -> str:
        return f"States.{self.name}"


#: Final states without a value.
FINAL_FAILURE_STATES = frozenset({States.failed, States.dep_fail, States.cancelled})
#: States that a task never leaves.
FINAL_STATES = FINAL_FAILURE_STATES | {States.exec_done, States.memo_done}
