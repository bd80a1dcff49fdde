"""Random graphs with failures, retries, cancels and joins: the graph behaves as a model of it."""

from __future__ import annotations

from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.parsl._kernel.futures import GraphFuture
from gristmill.parsl._kernel.graph import Graph
from gristmill.parsl._kernel.tasks import Task
from gristmill.parsl.dataflow.dependency_resolvers import DEEP_DEPENDENCY_RESOLVER
from gristmill.parsl.dataflow.errors import DependencyError, JoinError
from gristmill.parsl.dataflow.states import FINAL_STATES, States

RETRIES = 1
GOOD = {States.exec_done, States.memo_done}


@dataclass
class Modelled:
    """A task of the model."""

    needs: list[Modelled]
    joins: list[Modelled] | None
    outcomes: list[bool]
    state: States = States.pending
    attempts: int = 0

    def finish(self) -> bool:
        """Ends one attempt; returns whether it succeeded."""
        is_good = self.outcomes[self.attempts]
        self.attempts += 1
        if is_good:
            self.state = States.exec_done if self.joins is None else States.joining
        elif self.attempts > RETRIES:
            self.state = States.failed
        return is_good

    def cancel(self) -> None:
        """Cancels the task, and the tasks that it has joined."""
        if self.state in FINAL_STATES:
            return
        for inner in self.joins or () if self.state is States.joining else ():
            inner.cancel()
        self.state = States.cancelled

    def settle(self) -> bool:
        """Takes a step if the awaited tasks have ended; returns whether it took one."""
        waits_for = self.joins or [] if self.state is States.joining else self.needs
        if self.state not in (States.pending, States.joining):
            return False
        if not all(other.state in FINAL_STATES for other in waits_for):
            return False
        is_good = all(other.state in GOOD for other in waits_for)
        if self.state is States.pending:
            self.state = States.launched if is_good else States.dep_fail
        else:
            self.state = States.exec_done if is_good else States.failed
        return True


class Hand:
    """An executor whose attempts end when the test says so."""

    def __init__(self) -> None:
        self.attempts: dict[int, Future[Any]] = {}

    def submit(self, function: Any, specification: Any, number: int, *needs: Any) -> Future[Any]:
        """Begins an attempt."""
        self.attempts[number] = Future()
        return self.attempts[number]


class Forgetful:
    """A memoizer that remembers nothing."""

    def check_memo(self, task: Task) -> None:
        """Finds no result."""

    def update_memo_result(self, task: Task, value: object) -> None:
        """Ignores the result."""

    def update_memo_exception(self, task: Task, error: BaseException) -> None:
        """Ignores the error."""


@dataclass
class World:
    """A graph and its model, side by side."""

    hand: Hand = field(default_factory=Hand)
    model: list[Modelled] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)
    #: Futures of the tasks: a task that has ended does not hold its future.
    futures: list[GraphFuture] = field(default_factory=list)

    def __post_init__(self) -> None:
        config = SimpleNamespace(retries=RETRIES, retry_handler=None, garbage_collect=True)
        executors = {"hand": self.hand}
        self.graph = Graph(config, executors, Forgetful(), DEEP_DEPENDENCY_RESOLVER, repr)
        self.kernel = SimpleNamespace(cancel_task=self.graph.cancel)

    def submit(self, needs: list[int], joins: list[int] | None, outcomes: list[bool]) -> None:
        """Submits a task that needs some earlier ones, and joins some."""
        known = len(self.model)
        needed = sorted({number % known for number in needs}) if known else []
        joined = None if joins is None else [number % known for number in joins] if known else []
        task = Task(
            id=known,
            dfk=self.kernel,
            executor="hand",
            func=print,
            func_name="print",
            args=(known, [self.futures[number] for number in needed]),
            kwargs={},
            join=joined is not None,
            resource_specification={},
        )
        task.app_fu = GraphFuture(task)
        task.depends = [self.futures[number] for number in needed]
        self.tasks.append(task)
        self.futures.append(task.app_fu)
        inner = None if joined is None else [self.model[number] for number in joined]
        self.model.append(Modelled([self.model[number] for number in needed], inner, outcomes))
        self.graph.add(task)

    def finish(self, choice: int) -> None:
        """Ends one of the running attempts."""
        running = [n for n, one in enumerate(self.model) if one.state is States.launched]
        if not running:
            return
        number = running[choice % len(running)]
        one, attempt = self.model[number], self.hand.attempts[number]
        if not one.finish():
            attempt.set_exception(ValueError(number))
        elif one.joins is None:
            attempt.set_result(number)
        else:
            places = [self.model.index(inner) for inner in one.joins]
            attempt.set_result([self.futures[place] for place in places])

    def cancel(self, choice: int) -> None:
        """Cancels any task."""
        if self.model:
            number = choice % len(self.model)
            self.model[number].cancel()
            self.futures[number].cancel()

    def compare(self) -> None:
        """Asserts that every task and its future are in the state of the model."""
        while any([one.settle() for one in self.model]):
            pass
        assert [task.status for task in self.tasks] == [one.state for one in self.model]
        counted = {state: count for state, count in self.graph.task_states.counts.items() if count}
        states = [one.state for one in self.model]
        assert counted == {state: states.count(state) for state in set(states)}
        open_tasks = [n for n, one in enumerate(self.model) if one.state not in FINAL_STATES]
        assert sorted(self.graph.task_states.tasks) == open_tasks
        for one, future in zip(self.model, self.futures, strict=True):
            self.compare_future(one, future)

    def compare_future(self, one: Modelled, future: GraphFuture) -> None:
        """Asserts that a future shows the final state, and no other."""
        assert future.done() == (one.state in FINAL_STATES)
        assert future.cancelled() == (one.state is States.cancelled)
        if one.state is States.exec_done:
            future.result(0)
        elif one.state is States.dep_fail:
            assert isinstance(future.exception(0), DependencyError)
        elif one.state is States.failed:
            failed_itself = not one.outcomes[one.attempts - 1]
            assert isinstance(future.exception(0), ValueError if failed_itself else JoinError)
        elif one.state is States.cancelled:
            with pytest.raises(CancelledError):
                future.result(0)


numbers = st.integers(0, 99)
submissions = st.tuples(
    st.just("submit"),
    st.lists(numbers, max_size=3),
    st.none() | st.lists(numbers, max_size=2, unique=True),
    st.lists(st.booleans(), min_size=RETRIES + 1, max_size=RETRIES + 1),
)
steps = submissions | st.tuples(st.just("finish"), numbers) | st.tuples(st.just("cancel"), numbers)


@given(st.lists(steps, max_size=40))
def test_every_task_goes_where_the_model_goes(program: list[tuple[Any, ...]]) -> None:
    world = World()
    for step, *details in program:
        getattr(world, step)(*details)
        world.compare()
    # Attempts that are still open end here.
    for _ in range(4 * len(world.model)):
        world.finish(0)
        world.compare()
    assert not world.graph.task_states.tasks
