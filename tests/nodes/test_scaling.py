"""The wanted number of blocks, and the handling of lost ones: no thread, no clock, no process."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from gristmill._nodes import blocks as blocks_module
from gristmill._nodes.block_status import (
    BlocksFailedError,
    BlockState,
    BlockStatus,
    fail_when_all_failed,
    handler_of,
    read_status,
)
from gristmill._nodes.blocks import Blocks, Change, name_of_node
from gristmill._nodes.scaling import Limits, Rate, Strategy
from gristmill._nodes.view import NodeView
from interrupted import at_each_place

_LIMITS = Limits(init_blocks=1, min_blocks=0, max_blocks=4, parallelism=1.0, workers_per_block=2)


def strategy(kind: str | None = "simple", **limits: float) -> Strategy:
    """Returns a strategy that has already decided on its first blocks."""
    made = Strategy(kind, dataclasses.replace(_LIMITS, **limits), max_idletime_s=10)
    made.decide(1, 9, 0)
    return made


@pytest.mark.parametrize(
    ("tasks", "blocks", "change"),
    [(1, 0, 1), (2, 1, 0), (3, 1, 1), (7, 2, 2), (100, 2, 2), (100, 4, 0), (1, 4, 0)],
)
def test_blocks_follow_the_tasks(tasks: int, blocks: int, change: int) -> None:
    assert strategy().decide(tasks, blocks, 0) == change


@pytest.mark.parametrize(("parallelism", "change"), [(0.0, 1), (0.25, 1), (0.5, 2), (1.0, 4)])
def test_parallelism_is_workers_for_each_task(parallelism: float, change: int) -> None:
    assert strategy(parallelism=parallelism).decide(8, 0, 0) == change


def test_the_size_of_blocks_is_what_they_turn_out_to_have() -> None:
    made = strategy()
    assert made.decide(8, 0, 0) == 4
    assert made.decide(8, 1, 0, workers=8.0) == 0


def test_blocks_that_are_not_needed_are_told_only_where_that_is_asked_for() -> None:
    assert strategy("simple").decide(3, 4, 0) == 0
    assert strategy("htex_auto_scale").decide(3, 4, 0) == -2
    assert strategy("htex_auto_scale", min_blocks=3).decide(3, 4, 0) == -1


def test_the_first_blocks_wait_for_no_task() -> None:
    for kind in ("none", None, "simple", "htex_auto_scale"):
        made = Strategy(kind, dataclasses.replace(_LIMITS, init_blocks=3), max_idletime_s=10)
        assert made.decide(0, 0, 0) == 3
        assert made.decide(0, 3, 0) == 0


def test_none_adds_nothing_and_takes_nothing_away() -> None:
    made = strategy("none")
    assert [made.decide(100, 1, 0), made.decide(0, 3, 0), made.decide(0, 3, 1e6)] == [0, 0, 0]


def test_idle_blocks_are_taken_away_after_their_time() -> None:
    made = strategy(min_blocks=1)
    assert made.decide(0, 3, 100) == 0
    assert made.decide(0, 3, 110) == 0
    assert made.decide(0, 3, 111) == -2
    assert made.decide(0, 1, 112) == 0


def test_a_task_begins_the_time_anew() -> None:
    made = strategy()
    assert made.decide(0, 3, 100) == 0
    assert made.decide(1, 3, 105) == 0
    assert made.decide(0, 3, 111) == 0
    assert made.decide(0, 3, 122) == -3


def test_the_least_number_of_blocks_is_kept_without_tasks() -> None:
    assert strategy(min_blocks=2).decide(0, 0, 0) == 2
    assert strategy(min_blocks=3).decide(1, 0, 0) == 3


def test_an_unknown_strategy_is_refused() -> None:
    with pytest.raises(ValueError, match="none of none, simple, htex_auto_scale"):
        strategy("simpel")


def test_a_rate_lets_so_many_pass_within_its_time() -> None:
    rate = Rate(2, 10.0)
    for now in (0.0, 1.0):
        assert rate.wait_s(now) == 0
        rate.note(now)
    assert rate.wait_s(2.0) == 8.0
    assert rate.wait_s(10.0) == 0
    rate.note(10.0)
    assert rate.wait_s(10.0) == 1.0


class Jobs:
    """A batch system that the test controls."""

    init_blocks = 2

    def __init__(self) -> None:
        self.states: dict[str, BlockStatus] = {}
        self.refuses = False

    def submit(self, command: str, tasks_per_node: int, job_name: str) -> str | None:
        if self.refuses:
            raise OSError("the queue is closed")
        self.states[job_name] = BlockStatus(BlockState.PENDING)
        return job_name

    def status(self, jobs: list[str]) -> list[BlockStatus]:
        return [self.states[job] for job in jobs]

    def cancel(self, jobs: list[str]) -> list[bool]:
        return [True for _ in jobs]


@pytest.fixture
def jobs() -> Jobs:
    return Jobs()


@pytest.fixture
def blocks(jobs: Jobs) -> Blocks:
    made = Blocks(jobs, "test", lambda number: f"run {number}")
    assert made.submit()
    assert made.submit()
    return made


def node(block: str, host: str, tasks: int = 0) -> NodeView:
    return NodeView(name_of_node(block, host), 2, tasks)


def test_blocks_know_which_nodes_are_theirs(blocks: Blocks) -> None:
    assert blocks.workers_per_block() is None
    assert blocks.see([NodeView("elsewhere", 9, 0), node("1", "n1"), node("1", "n2")], 0).has_gained
    assert [block.has_joined for block in blocks.living()] == [False, True]
    assert blocks.workers_per_block() == 4
    assert blocks.see([node("1", "n2")], 1) == Change()
    assert blocks.see([], 2) == Change(has_lost=True)


def test_a_handler_of_a_signal_may_ask_for_blocks_anywhere_in_a_look_at_them(
    blocks: Blocks,
) -> None:
    def look(_: object) -> None:
        assert len(blocks.living()) == len(blocks.statuses()) == len(blocks.jobs()) == 2

    assert at_each_place(blocks_module, lambda: None, look, look)


def test_a_block_is_idle_while_none_of_its_nodes_has_a_task(blocks: Blocks) -> None:
    def idle(since: float) -> list[str]:
        return [block.number for block in blocks.idle(since)]

    blocks.see([node("0", "n1"), node("1", "n2"), node("1", "n3", tasks=1)], 10)
    assert idle(9) == []
    assert idle(10) == ["0"]
    blocks.see([node("0", "n1"), node("1", "n2"), node("1", "n3")], 20)
    assert idle(20) == ["0", "1"], "the longest first"
    blocks.see([node("0", "n1", tasks=1), node("1", "n2"), node("1", "n3")], 30)
    assert idle(30) == ["1"]
    blocks.see([], 40)
    assert idle(40) == []


def test_a_job_that_ends_before_a_node_has_joined_is_missing(blocks: Blocks, jobs: Jobs) -> None:
    blocks.see([node("0", "n1")], 0)
    for job in jobs.states:
        jobs.states[job] = BlockStatus(BlockState.COMPLETED, stderr_summary="not found")
    blocks.see([], 1)
    assert blocks.poll(set) == 0, "one report of an end is not enough"
    assert blocks.poll(set) == 1
    first, second = blocks.statuses().values()
    assert first.state is BlockState.COMPLETED
    assert second.state is BlockState.MISSING
    assert second.stderr_summary == "not found"
    assert not blocks.living()


def test_a_block_whose_node_was_there_between_two_looks_is_not_missing(
    blocks: Blocks, jobs: Jobs
) -> None:
    for job in jobs.states:
        jobs.states[job] = BlockStatus(BlockState.FAILED)
    assert blocks.poll(lambda: [name_of_node("1", "n1"), "elsewhere"]) == 0
    assert blocks.poll(set) == 1
    first, second = blocks.statuses().values()
    assert (first.state, first.has_joined) == (BlockState.MISSING, False)
    assert (second.state, second.has_joined) == (BlockState.FAILED, True)


def test_what_is_taken_away_is_no_failure(blocks: Blocks) -> None:
    blocks.take_away(blocks.living()[:1])
    assert [one.state for one in blocks.statuses().values()] == [
        BlockState.SCALED_IN,
        BlockState.PENDING,
    ]


def test_a_job_that_cannot_be_submitted_is_a_block_that_failed(blocks: Blocks, jobs: Jobs) -> None:
    jobs.refuses = True
    assert not blocks.submit()
    assert blocks.statuses()["2"].message == "it could not be submitted: the queue is closed"
    assert list(blocks.jobs()) == ["0", "1"]


class Verdict:
    """An executor as an error handler sees it."""

    def __init__(self, provider: Any) -> None:
        self.provider = provider
        self.error: BaseException | None = None

    def set_bad_state_and_fail_all(self, error: BaseException) -> None:
        self.error = error


@pytest.mark.parametrize(
    ("states", "is_over"),
    [
        ([BlockState.FAILED], False),
        ([BlockState.FAILED, BlockState.RUNNING], False),
        ([BlockState.FAILED, BlockState.TIMEOUT], False),
        ([BlockState.FAILED, BlockState.MISSING], True),
    ],
)
def test_it_is_given_up_when_all_blocks_have_failed(
    jobs: Jobs, states: list[BlockState], is_over: bool
) -> None:
    status = {
        str(number): BlockStatus(state, exit_code=3, stderr_summary="no such module")
        for number, state in enumerate(states)
    }
    verdict = Verdict(jobs)
    handler_of(True)(verdict, status)
    assert (verdict.error is not None) is is_over
    handler_of(False)(verdict, status)
    if is_over:
        assert isinstance(verdict.error, BlocksFailedError)
        assert "exit status 3" in str(verdict.error)
        assert "no such module" in str(verdict.error)
    assert handler_of(fail_when_all_failed) is fail_when_all_failed


def test_a_block_that_has_worked_is_no_reason_to_give_up(jobs: Jobs) -> None:
    verdict = Verdict(jobs)
    status = {str(number): BlockStatus(BlockState.FAILED, has_joined=True) for number in range(3)}
    fail_when_all_failed(verdict, status)
    assert verdict.error is None


def test_states_are_those_of_parsl() -> None:
    states = pytest.importorskip("parsl.jobs.states")
    assert {one.name: int(one) for one in BlockState} == {
        one.name: int(one) for one in states.JobState
    }
    handlers = pytest.importorskip("parsl.jobs.error_handlers")
    status = {str(number): BlockStatus(BlockState.FAILED, "no") for number in range(3)}
    verdict = Verdict(Jobs())
    handlers.windowed_error_handler(verdict, status)
    assert verdict.error is not None
    theirs = states.JobStatus(states.JobState.TIMEOUT, "too long", 1)
    assert read_status(theirs) == BlockStatus(BlockState.TIMEOUT, "too long", 1)
