"""The calls of a campaign: from the plan of a task to its future, and from its future to its outcome."""

from __future__ import annotations

import concurrent.futures
from collections import deque
from collections.abc import Callable
from typing import Any

from gristmill import DependencyError, Executor, TaskTimeoutError, WorkerLostError

from chaos import tasks
from chaos.judge import Ending, Outcome
from chaos.mixture import Kind, TaskPlan

#: Futures that later tasks may take: as many as the plan reaches back.
_KEPT = 8
_WAYS = {
    Kind.FORK: "return",
    Kind.FORK_RAISE: "raise",
    Kind.FORK_EXEC: "exec",
    Kind.FORK_EXIT: "exit",
    Kind.LEAVE_CHILD: "leave",
}
#: Kinds whose function takes nothing but the witness and the number.
_PLAIN: dict[Kind, Callable[[str, int], Any]] = {
    Kind.TINY: tasks.tiny,
    Kind.RAISE: tasks.fail,
    Kind.SPAWN: tasks.spawn,
    Kind.MULTIPROCESSING: tasks.use_multiprocessing,
    Kind.CONTEXT: tasks.in_context,
    Kind.FORKED_CALL: tasks.in_fork,
    Kind.FORKED_CALL_DIE: tasks.abort,
    Kind.TIMEOUT: tasks.sleep,
    Kind.TIMEOUT_DEAF: tasks.sleep_deaf,
    Kind.EXPIRE: tasks.tiny,
    Kind.CANCEL: tasks.tiny,
    Kind.CANCEL_RUNNING: tasks.sleep,
    Kind.ABORT: tasks.abort,
    Kind.EXIT: tasks.leave,
    Kind.FAULT: tasks.fault,
    Kind.CONTEXT_DIE: tasks.abort,
    Kind.DIE_ONCE: tasks.die_once,
}
#: Seconds from the interrupt of a task to the kill of its worker.
_GRACE_S = 0.05


class Submitter:
    """Submits tasks by their plans, in the order of their numbers."""

    def __init__(self, executor: Executor, witness: str) -> None:
        self._executor = executor
        self._witness = witness
        self._last: deque[Any] = deque(maxlen=_KEPT)

    def submit(self, plan: TaskPlan) -> Any:
        """Submits one task; returns its future, or the results of a map."""
        future = self._submit(plan, self._options_of(plan))
        self._last.append(future)
        return future

    def _options_of(self, plan: TaskPlan) -> Any:
        options: dict[str, Any] = {}
        if plan.loss_retries:
            options["loss_retries"] = plan.loss_retries
        if plan.kind is Kind.MAP:
            options["loss_retries"] = plan.children[0].loss_retries
        if plan.priority:
            options["priority"] = plan.priority
        if plan.kind is Kind.EXPIRE:
            options["start_within"] = plan.size / 1e6
        if plan.kind in (Kind.CONTEXT, Kind.CONTEXT_DIE):
            options["context"] = tasks.CONTEXT
        if plan.kind in (Kind.FORKED_CALL, Kind.FORKED_CALL_DIE):
            options["context"] = tasks.FORKED
        if plan.kind in (Kind.TIMEOUT, Kind.TIMEOUT_DEAF):
            options |= {"timeout": plan.size / 1e6, "grace": _GRACE_S}
        if plan.kind is Kind.TIMEOUT:
            options["grace"] = 60.0
        return self._executor.options(**options) if options else self._executor

    def _submit(self, plan: TaskPlan, executor: Any) -> Any:
        path, number, kind = self._witness, plan.number, plan.kind
        if kind in _PLAIN:
            return executor.submit(_PLAIN[kind], path, number)
        if kind in _WAYS:
            return executor.submit(tasks.fork, path, number, _WAYS[kind])
        if kind is Kind.WORK:
            return executor.submit(tasks.work, path, number, plan.size)
        if kind is Kind.AFTER:
            assert plan.parent is not None
            parent = self._last[plan.parent - number]
            return executor.submit(tasks.after, path, number, plan.parent, parent)
        if kind is Kind.NEST:
            return executor.submit(
                tasks.nest, path, number, plan.loss_retries, _as_lists(plan.children)
            )
        if kind is Kind.MAP:
            numbers = [child.number for child in plan.children]
            are_deadly = [child.kind is Kind.EXIT for child in plan.children]
            return executor.map(tasks.item, [path] * len(numbers), numbers, are_deadly)
        if kind in (Kind.LOAD, Kind.LOAD_DIE):
            dies = kind is Kind.LOAD_DIE
            return executor.submit(tasks.by_value(path, number, plan.size, dies=dies))
        if kind is Kind.LARGE_ARGUMENT:
            return executor.submit(tasks.take_large, path, number, tasks.payload(number, plan.size))
        if kind is Kind.LARGE_RESULT:
            return executor.submit(tasks.give_large, path, number, plan.size)
        assert kind is Kind.LARGE_ARRAY
        return executor.submit(tasks.pass_array, path, number, _array_of(plan))


def _as_lists(children: tuple[TaskPlan, ...]) -> list[Any]:
    return [
        (child.number, str(child.kind), child.size, _as_lists(child.children)) for child in children
    ]


def _array_of(plan: TaskPlan) -> Any:
    import numpy as np

    array = np.arange(plan.size // 8, dtype=np.int64)
    array[0] = plan.number
    return array


def cancel(future: Any, *, running: bool) -> bool:
    """Cancels a task; returns whether its future says that it is cancelled."""
    return bool(future.cancel(running=True, grace=_GRACE_S) if running else future.cancel())


def outcome_of(plan: TaskPlan, future: Any, *, is_cancelled: bool = False) -> Outcome:
    """Returns the outcome of a future that has ended, or of a map, whose results it waits for."""
    if plan.kind is Kind.MAP:
        return Outcome(Ending.RIGHT, children=_outcomes_of_map(plan, future))
    try:
        value = future.result()
    except concurrent.futures.CancelledError:
        return Outcome(Ending.CANCELLED, is_cancelled=is_cancelled)
    except Exception as error:
        ending = _ending_of(plan, type(error).__name__, str(error))
        return Outcome(ending, "" if ending is Ending.RAISED else repr(error)[:2000], is_cancelled)
    if not _is_right(plan, value):
        return Outcome(Ending.WRONG, repr(value)[:200], is_cancelled)
    if plan.kind is Kind.NEST:
        return Outcome(Ending.RIGHT, "", is_cancelled, _children_of(plan, value[1]))
    return RIGHT if not is_cancelled else Outcome(Ending.RIGHT, is_cancelled=True)


#: The outcome of most tasks, which all of them share.
RIGHT = Outcome(Ending.RIGHT)
_BY_NAME = {
    WorkerLostError.__name__: Ending.LOST,
    TaskTimeoutError.__name__: Ending.TIMED_OUT,
    DependencyError.__name__: Ending.DEPENDENCY_FAILED,
}


def _ending_of(plan: TaskPlan, name: str, text: str) -> Ending:
    if name == "ValueError" and plan.kind is Kind.RAISE and text == str(plan.number):
        return Ending.RAISED
    return _BY_NAME.get(name, Ending.FAILED)


def _is_right(plan: TaskPlan, value: Any) -> bool:
    if plan.kind is Kind.NEST:
        return isinstance(value, list) and value[0] == plan.number
    if plan.kind is Kind.LARGE_RESULT:
        return bool(value == tasks.payload(plan.number, plan.size))
    if plan.kind is Kind.LARGE_ARRAY:
        return bool((value == 2 * _array_of(plan)).all())
    return bool(value == plan.number)


def _outcomes_of_map(plan: TaskPlan, results: Any) -> tuple[Outcome, ...]:
    outcomes = []
    for child in plan.children:
        try:
            value = next(results)
        except Exception as error:
            ending = _ending_of(child, type(error).__name__, str(error))
            outcomes.append(Outcome(ending, repr(error)[:2000]))
        else:
            is_right = value == child.number
            outcomes.append(RIGHT if is_right else Outcome(Ending.WRONG, repr(value)[:200]))
    return tuple(outcomes)


def _children_of(plan: TaskPlan, endings: list[Any]) -> tuple[Outcome, ...]:
    """Returns the outcomes that a task has found of its children."""
    outcomes = []
    for child, ending in zip(plan.children, endings, strict=False):
        if isinstance(ending, tuple):
            name, text = ending
            kind = Ending.WRONG if name == "wrong" else _ending_of(child, name, text)
            outcomes.append(Outcome(kind, f"{name}: {text}"))
        elif child.kind is Kind.NEST:
            outcomes.append(Outcome(Ending.RIGHT, children=_children_of(child, ending[1])))
        else:
            outcomes.append(RIGHT)
    return tuple(outcomes)
