"""The rules of a campaign, applied to what tasks left behind and how their futures ended."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from chaos.mixture import KILLING, Kind, Mode, TaskPlan
from chaos.witness import Evidence


class Ending(enum.Enum):
    """End of a future."""

    #: The future has the result of its task.
    RIGHT = "returned the right value"
    WRONG = "returned a wrong value"
    #: The task raised the exception that it raises by its plan.
    RAISED = "raised its exception"
    LOST = "was lost with its worker"
    TIMED_OUT = "ran out of time"
    CANCELLED = "was cancelled"
    DEPENDENCY_FAILED = "did not run because a task among its arguments failed"
    FAILED = "failed with another error"
    NONE = "has not ended"


@dataclass(frozen=True)
class Outcome:
    """The end of one future."""

    ending: Ending
    #: The error, or the wrong value.
    text: str = ""
    #: True if ``cancel`` returned true.
    is_cancelled: bool = False
    #: The outcomes of the task's children, in their order; of none where the task has no result.
    children: tuple[Outcome, ...] = ()


@dataclass(frozen=True)
class Complaint:
    """A broken rule, of one task or of the whole campaign."""

    text: str
    number: int | None = None


@dataclass(frozen=True)
class Case:
    """All that the judge knows of a campaign."""

    mode: Mode
    plan_of: Callable[[int], TaskPlan]
    #: Outcomes of the tasks from 0 on.
    outcomes: Sequence[Outcome]
    evidence: Evidence
    #: Workers that have died; on nodes it is unknown, since nodes are lost with their tasks.
    workers_lost: int | None
    #: Workers that the faults may have killed.
    deaths_max: int = 0
    #: Keepers that were killed: the workers that die with them are not charged to their tasks.
    keepers_killed: int = 0


#: Workers that a task may kill before it is lost, whatever its budget.
_KILLS_MAX = 3


def judge(case: Case) -> Iterator[Complaint]:
    """Applies all rules; yields what is broken, in the order of the tasks."""
    free = 0
    for number, outcome in enumerate(case.outcomes):
        plan = case.plan_of(number)
        parent = None if plan.parent is None else case.outcomes[plan.parent]
        yield from _judge_task(case, plan, outcome, parent)
        free += _losses_of(plan, outcome)
    if case.workers_lost is not None:
        own = sum(_kills_of(case, case.plan_of(number)) for number in range(len(case.outcomes)))
        deaths_max = min(case.deaths_max, case.workers_lost - own)
        if free > deaths_max:
            yield Complaint(
                f"{free} tasks that did not kill their worker were lost, but at most {deaths_max} workers died of"
                f" something else than their task: tasks that had not started were lost"
            )
    known = set(_numbers(map(case.plan_of, range(len(case.outcomes)))))
    for number in sorted({*case.evidence.begun, *case.evidence.ended} - known):
        yield Complaint("a task ran that was never submitted", number)


def judge_runs(case: Case) -> Iterator[Complaint]:
    """Applies the rules that hold before the futures have ended."""
    for number in range(len(case.outcomes)):
        plan = case.plan_of(number)
        yield from _judge_runs(case, plan, plan.loss_retries + 1)
        yield from _judge_children(case, plan, Outcome(Ending.NONE), plan.loss_retries + 1)


def _judge_task(
    case: Case, plan: TaskPlan, outcome: Outcome, parent: Outcome | None
) -> Iterator[Complaint]:
    begun = case.evidence.begun[plan.number]
    yield from _judge_ending(case, plan, outcome, parent)
    yield from _judge_runs(case, plan, plan.loss_retries + 1)
    # A node runs a task behind its parent. If it is lost before it tells of the parent's end, both are.
    is_lost_together = (
        case.mode is Mode.NODES and parent is not None and parent.ending is Ending.LOST
    )
    if outcome.ending is Ending.DEPENDENCY_FAILED and begun and not is_lost_together:
        yield Complaint("it ran although a task among its arguments failed", plan.number)
    # A task with a budget may have begun before, in an attempt that was lost.
    if begun and not plan.loss_retries:
        if plan.kind is Kind.EXPIRE and outcome.ending is Ending.TIMED_OUT:
            yield Complaint("it ran although its time to start was over", plan.number)
        if plan.kind is Kind.CANCEL and outcome.ending is Ending.CANCELLED:
            yield Complaint("it ran although it was cancelled before it had started", plan.number)
    kills_max = _KILLS_MAX + case.keepers_killed
    if case.mode is Mode.LOCAL and plan.kind in KILLING and begun > kills_max:
        yield Complaint(f"it has killed {begun} workers", plan.number)
    yield from _judge_children(case, plan, outcome, plan.loss_retries + 1)


def _judge_ending(
    case: Case, plan: TaskPlan, outcome: Outcome, parent: Outcome | None = None
) -> Iterator[Complaint]:
    """Compares the end of a task, or of a child, with its plan."""
    begun, ended = case.evidence.begun[plan.number], case.evidence.ended[plan.number]
    allowed = _allowed(plan, outcome, parent)
    # Faults may meet one task again and again. An attempt has started before it records that it began: in a fork,
    # milliseconds before; and an attempt that is cut off while it loads the task records nothing.
    is_used_up = begun + 1 >= min(plan.loss_retries + 1, _KILLS_MAX)
    if (is_used_up or "while importing module" in outcome.text) and not outcome.is_cancelled:
        allowed |= {Ending.LOST}
    if outcome.ending not in allowed:
        expected = " or ".join(sorted(ending.value for ending in allowed))
        said = f": {outcome.text}" if outcome.text else ""
        yield Complaint(
            f"it began {begun} times and {outcome.ending.value}, expected is that it {expected}{said}",
            plan.number,
        )
    is_task = plan.kind is not Kind.MAP
    if is_task and outcome.ending in (Ending.RIGHT, Ending.RAISED) and not ended:
        yield Complaint(
            f"its future has a result, but the task began {begun} times and never ended",
            plan.number,
        )


def _judge_runs(case: Case, plan: TaskPlan, attempts: int) -> Iterator[Complaint]:
    """Applies the rules that hold for each task, and for each child of one, however it ended."""
    found = case.evidence
    begun, ended = found.begun[plan.number], found.ended[plan.number]
    loaded = found.loaded[plan.number]
    if max(begun, loaded) > attempts:
        yield Complaint(
            f"it ran {max(begun, loaded)} times, but has {attempts} attempts", plan.number
        )
    if ended > begun:
        yield Complaint(f"it began {begun} times and ended {ended} times", plan.number)
    if plan.number in found.strayed:
        yield Complaint("it ended in a process where it had not begun", plan.number)


def _judge_children(
    case: Case, plan: TaskPlan, outcome: Outcome, attempts: int
) -> Iterator[Complaint]:
    """Judges the children of a task. Each attempt of the task submits them again."""
    for place, child in enumerate(plan.children):
        attempts_of_child = attempts * (child.loss_retries + 1)
        yield from _judge_runs(case, child, attempts_of_child)
        if outcome.ending is not Ending.RIGHT:
            one = Outcome(Ending.NONE)
        elif place >= len(outcome.children):
            one = Outcome(Ending.NONE)
            yield Complaint("its parent has no outcome of it", child.number)
        else:
            one = outcome.children[place]
            yield from _judge_ending(case, child, one)
        yield from _judge_children(case, child, one, attempts_of_child)


def _allowed(plan: TaskPlan, outcome: Outcome, parent: Outcome | None) -> frozenset[Ending]:
    """Returns the endings that a task may have."""
    if outcome.is_cancelled:
        return frozenset((Ending.CANCELLED,))
    if parent is not None and parent.ending is not Ending.RIGHT:
        return frozenset((Ending.DEPENDENCY_FAILED,))
    if plan.kind in KILLING:
        return frozenset((Ending.LOST,))
    if plan.kind is Kind.DIE_ONCE:
        return frozenset((Ending.RIGHT if plan.loss_retries else Ending.LOST,))
    if plan.kind is Kind.EXPIRE:
        both = frozenset((Ending.RIGHT, Ending.TIMED_OUT))
        return both if plan.loss_retries else both | {Ending.LOST}
    by_plan = {
        Kind.RAISE: Ending.RAISED,
        Kind.TIMEOUT: Ending.TIMED_OUT,
        Kind.TIMEOUT_DEAF: Ending.TIMED_OUT,
        Kind.CANCEL_RUNNING: Ending.CANCELLED,
    }.get(plan.kind, Ending.RIGHT)
    return frozenset((by_plan,) if plan.loss_retries else (by_plan, Ending.LOST))


def _losses_of(plan: TaskPlan, outcome: Outcome) -> int:
    """Returns how many tasks, or calls of a map, were lost that did not kill their worker."""
    if plan.kind is Kind.MAP:
        return sum(map(_losses_of, plan.children, outcome.children))
    return int(outcome.ending is Ending.LOST and not plan.kills_its_worker)


def _kills_of(case: Case, plan: TaskPlan) -> int:
    """Returns how many workers a task and its children have killed at least."""
    found = case.evidence
    own = 0
    if plan.kind is Kind.DIE_ONCE:
        own = min(1, found.begun[plan.number])
    elif plan.kind in KILLING and plan.kind is not Kind.FORKED_CALL_DIE:
        own = max(found.begun[plan.number], found.loaded[plan.number])
    return own + sum(_kills_of(case, child) for child in plan.children)


def _numbers(plans: Iterator[TaskPlan] | Sequence[TaskPlan]) -> Iterator[int]:
    for plan in plans:
        yield plan.number
        yield from _numbers(plan.children)
