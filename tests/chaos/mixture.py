"""The plan of a campaign: what each task does, and the executor that runs them, drawn from a seed.

The same mode and seed give the same plan. A task's plan depends on its number alone, so a shorter campaign has the first
tasks of a longer one. When a fault meets a task is up to the machine.
"""

from __future__ import annotations

import enum
import random
from dataclasses import dataclass


class Mode(enum.StrEnum):
    """Place of the workers."""

    LOCAL = "local"
    NODES = "nodes"


class Kind(enum.StrEnum):
    """Behaviour of a task."""

    TINY = "tiny"
    WORK = "work"
    RAISE = "raise"
    #: Takes the result of an earlier task as an argument.
    AFTER = "after"
    FORK = "fork"
    FORK_RAISE = "fork and raise"
    FORK_EXEC = "fork and exec"
    FORK_EXIT = "fork and exit"
    #: Leaves a forked child, which leaves the task's function beside later tasks.
    LEAVE_CHILD = "leave a child"
    SPAWN = "spawn"
    MULTIPROCESSING = "multiprocessing"
    NEST = "nest"
    #: A map of short calls, which are its children; it is no task itself.
    MAP = "map"
    #: Its function goes by value and takes time to load.
    LOAD = "load"
    CONTEXT = "context"
    #: Runs in a fork of a worker, in a context with such calls.
    FORKED_CALL = "call in a fork"
    LARGE_ARGUMENT = "large argument"
    LARGE_RESULT = "large result"
    LARGE_ARRAY = "large array"
    TIMEOUT = "timeout"
    #: Catches the interrupt of its timeout, so that its worker is killed.
    TIMEOUT_DEAF = "timeout, deaf"
    #: Has little time to start.
    EXPIRE = "expire"
    CANCEL = "cancel"
    CANCEL_RUNNING = "cancel running"
    ABORT = "abort"
    EXIT = "exit"
    FAULT = "fault"
    #: Kills its worker while its function is loaded.
    LOAD_DIE = "load and die"
    CONTEXT_DIE = "die in a context"
    FORKED_CALL_DIE = "die in a fork"
    #: Kills its worker in its first attempt only.
    DIE_ONCE = "die once"


#: Kinds that kill their process in each attempt.
KILLING = frozenset(
    (
        Kind.ABORT,
        Kind.EXIT,
        Kind.FAULT,
        Kind.LOAD_DIE,
        Kind.CONTEXT_DIE,
        Kind.FORKED_CALL_DIE,
    )
)

#: Tasks of each kind among a thousand; the rest is tiny. A kill costs a few milliseconds, so few tasks kill.
_SHARES = {
    Kind.WORK: 30,
    Kind.RAISE: 15,
    Kind.AFTER: 30,
    Kind.FORK: 8,
    Kind.FORK_RAISE: 4,
    Kind.FORK_EXEC: 4,
    Kind.FORK_EXIT: 4,
    Kind.LEAVE_CHILD: 4,
    Kind.SPAWN: 6,
    Kind.MULTIPROCESSING: 2,
    Kind.NEST: 20,
    Kind.MAP: 4,
    Kind.LOAD: 10,
    Kind.CONTEXT: 15,
    Kind.FORKED_CALL: 5,
    Kind.LARGE_ARGUMENT: 10,
    Kind.LARGE_RESULT: 10,
    Kind.LARGE_ARRAY: 3,
    Kind.TIMEOUT: 2,
    Kind.TIMEOUT_DEAF: 1,
    Kind.EXPIRE: 5,
    Kind.CANCEL: 10,
    Kind.CANCEL_RUNNING: 3,
    Kind.ABORT: 1,
    Kind.EXIT: 1,
    Kind.FAULT: 1,
    Kind.LOAD_DIE: 1,
    Kind.CONTEXT_DIE: 1,
    Kind.FORKED_CALL_DIE: 1,
    Kind.DIE_ONCE: 2,
}
_KINDS = (*_SHARES, Kind.TINY)
_WEIGHTS = (*_SHARES.values(), 1000 - sum(_SHARES.values()))
#: Kinds of tasks that tasks submit.
_CHILD_KINDS = (Kind.TINY, Kind.TINY, Kind.WORK, Kind.RAISE, Kind.FORK, Kind.SPAWN, Kind.NEST)

#: Calls of a map at most.
_CALLS_MAX = 150
#: Attempts beyond the first that a task with a budget has after losses.
SMALL_BUDGET, BUDGET = 2, 10
#: Share of the tasks that have a priority.
_WITH_PRIORITY = 0.02
#: Tasks before a task whose results it may take.
_PARENT_DISTANCE_MAX = 8
#: Bit where the place of a child begins in its number, and number of bits of a place.
_CHILD_BIT, _PLACE_BITS = 32, 4


@dataclass(frozen=True)
class TaskPlan:
    """The plan of one task."""

    number: int
    kind: Kind
    loss_retries: int = 0
    priority: int = 0
    #: Microseconds of work, of loading, or until it has to start or end, or bytes of a large value.
    size: int = 0
    #: The number of the task whose result it takes.
    parent: int | None = None
    children: tuple[TaskPlan, ...] = ()
    #: Tasks that are submitted before it is cancelled.
    cancel_after: int = 0

    @property
    def kills_its_worker(self) -> bool:
        """True if the task, or a child that may run in its worker, kills the worker."""
        mine = self.kind in KILLING or self.kind is Kind.DIE_ONCE
        return mine or any(child.kills_its_worker for child in self.children)


def root_of(number: int) -> int:
    """Returns the number of the task of the plan that a task, or a child of one, belongs to."""
    return number & ((1 << _CHILD_BIT) - 1)


@dataclass(frozen=True)
class ExecutorPlan:
    """The plan of the executor."""

    #: Workers of the executor, or of each node.
    workers: int
    nodes: int
    max_tasks_per_child: int | None
    start: str
    #: Bytes of shared memory for large values; 0 for the default. Values beyond it go to the disk.
    arena: int
    #: Tasks that are outstanding at most.
    window: int


def draw_executor(mode: Mode, seed: int) -> ExecutorPlan:
    """Draws the executor of a campaign."""
    dice = random.Random(f"executor {mode} {seed}")
    if mode is Mode.NODES:
        return ExecutorPlan(dice.choice((1, 2)), dice.choice((2, 3)), None, "fork", 0, 400)
    return ExecutorPlan(
        workers=dice.choice((2, 3, 4)),
        nodes=0,
        max_tasks_per_child=dice.choice((None, None, 2000)),
        # An interpreter takes ten times as long to start as a fork.
        start=dice.choices(("fork", "spawn"), (7, 1))[0],
        arena=dice.choice((0, 0, 8 << 20)),
        window=dice.choice((40, 400, 2000)),
    )


def _kind_of(mode: Mode, seed: int, number: int) -> Kind:
    return _draw_kind(random.Random(f"task {mode} {seed} {number}"))


def _draw_kind(dice: random.Random) -> Kind:
    return dice.choices(_KINDS, _WEIGHTS)[0]


def draw_task(mode: Mode, seed: int, number: int) -> TaskPlan:
    """Draws one task of a campaign."""
    dice = random.Random(f"task {mode} {seed} {number}")
    kind = _draw_kind(dice)
    parent = None
    if kind is Kind.AFTER:
        parent = number - dice.randint(1, _PARENT_DISTANCE_MAX)
        # The results of a map are no argument.
        if parent < 0 or _kind_of(mode, seed, parent) is Kind.MAP:
            kind, parent = Kind.TINY, None
    # On nodes a task may be lost several times: each loss of a node costs all tasks there.
    budget = dice.choice((0, SMALL_BUDGET, BUDGET) if mode is Mode.LOCAL else (0, BUDGET))
    return TaskPlan(
        number,
        kind,
        0 if kind is Kind.MAP else budget,
        dice.choice((-1, 1)) if dice.random() < _WITH_PRIORITY else 0,
        _draw_size(dice, kind),
        parent,
        _draw_below(dice, kind, number, budget),
        dice.choice((0, 10, 40)) if kind is Kind.CANCEL_RUNNING else 0,
    )


def _draw_size(dice: random.Random, kind: Kind) -> int:
    if kind in (Kind.WORK, Kind.LOAD, Kind.LOAD_DIE):
        return dice.choice((50, 500, 2000, 10_000))
    if kind in (Kind.TIMEOUT, Kind.TIMEOUT_DEAF, Kind.EXPIRE):
        return dice.choice((1000, 10_000, 50_000))
    if kind in (Kind.LARGE_ARGUMENT, Kind.LARGE_RESULT, Kind.LARGE_ARRAY):
        return dice.choice((20_000, 70_000, 200_000, 1_500_000))
    return 0


def _draw_below(dice: random.Random, kind: Kind, number: int, budget: int) -> tuple[TaskPlan, ...]:
    if kind is Kind.NEST:
        return _draw_children(dice, number, budget)
    if kind is not Kind.MAP:
        return ()
    count = dice.randint(2, _CALLS_MAX)
    deadly = dice.randrange(4 * count)
    return tuple(
        TaskPlan(
            number + (place << _CHILD_BIT), Kind.EXIT if place == deadly else Kind.TINY, budget
        )
        for place in range(1, count + 1)
    )


def _draw_children(
    dice: random.Random, number: int, budget: int, depth: int = 1
) -> tuple[TaskPlan, ...]:
    """Draws the children of a task. One at most kills its worker, once: three kills would be too many for any budget."""
    kinds = dice.choices(_CHILD_KINDS, k=dice.randint(1, 4))
    if depth == 1 and dice.random() < 0.05:
        kinds[0] = Kind.DIE_ONCE
    children = []
    for place, kind in enumerate(kinds, 1):
        kind = Kind.TINY if kind is Kind.NEST and depth > 2 else kind
        one = number + (place << (_CHILD_BIT + _PLACE_BITS * (depth - 1)))
        below = _draw_children(dice, one, budget, depth + 1) if kind is Kind.NEST else ()
        children.append(TaskPlan(one, kind, budget, size=_draw_size(dice, kind), children=below))
    return tuple(children)
