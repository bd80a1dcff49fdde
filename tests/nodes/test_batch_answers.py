"""Answers of batch systems that are wrong, cannot be read, or do not come."""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gristmill import Executor, StartError, on
from gristmill._nodes import blocks as blocks_module
from gristmill._nodes import outside_calls
from gristmill._nodes.block_status import BlockState, BlockStatus, read_status
from gristmill._nodes.blocks import Blocks, name_of_node
from gristmill._nodes.view import NodeView
from gristmill._reasons import reason_of

import calls
from processes import Processes
from stage import Gate

ENDED = BlockStatus(BlockState.COMPLETED)
RUNS = BlockStatus(BlockState.RUNNING)


class Answers:
    """A batch system whose answers the test sets."""

    def __init__(self) -> None:
        self.states: Any = [RUNS]
        self.cancels: Any = [True]
        self.jobs: list[str] = []

    def submit(self, command: str, tasks_per_node: int, job_name: str) -> str:
        self.jobs.append(job_name)
        return job_name

    def status(self, jobs: list[str]) -> Any:
        return self._given(self.states)

    def cancel(self, jobs: list[str]) -> Any:
        return self._given(self.cancels)

    def _given(self, answer: Any) -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer


@pytest.fixture
def answers() -> Answers:
    return Answers()


@pytest.fixture
def blocks(answers: Answers) -> Blocks:
    made = Blocks(answers, "test", lambda number: "run")
    assert made.submit()
    return made


def connected(number: str = "0") -> list[NodeView]:
    return [NodeView(name_of_node(number, "n1"), 2, 1)]


def state(blocks: Blocks) -> BlockState:
    return blocks.statuses()["0"].state


def test_a_job_whose_node_is_connected_has_not_ended(blocks: Blocks, answers: Answers) -> None:
    blocks.see(connected(), 0)
    answers.states = [ENDED]
    for _ in range(5):
        assert blocks.poll(set) == 0
    assert state(blocks) is BlockState.RUNNING
    blocks.see([], 1)
    blocks.poll(set)
    assert state(blocks) is BlockState.COMPLETED


def test_one_report_of_the_end_of_a_job_without_a_node_is_not_enough(
    blocks: Blocks, answers: Answers
) -> None:
    for answer in (ENDED, RUNS, ENDED):
        answers.states = [answer]
        assert blocks.poll(set) == 0
        assert blocks.living()
        assert blocks.are_ends_doubted() is (answer is ENDED)
    assert blocks.poll(set) == 1
    assert state(blocks) is BlockState.MISSING


def test_output_that_is_gone_at_the_second_report_is_kept(blocks: Blocks, answers: Answers) -> None:
    for words in ("no such partition", None):
        answers.states = [BlockStatus(BlockState.FAILED, stderr_summary=words)]
        blocks.poll(set)
    assert blocks.statuses()["0"].stderr_summary == "no such partition"


def test_a_block_lives_again_when_its_node_joins_after_the_reported_end(
    blocks: Blocks, answers: Answers
) -> None:
    answers.states = [ENDED]
    blocks.poll(set)
    blocks.poll(set)
    assert not blocks.living()
    blocks.see(connected(), 0)
    assert state(blocks) is BlockState.RUNNING
    assert [block.job for block in blocks.living()] == answers.jobs


def test_a_cancelled_block_whose_node_has_not_left_yet_does_not_live_again(blocks: Blocks) -> None:
    blocks.see(connected(), 0)
    blocks.take_away(blocks.living())
    blocks.see(connected(), 1)
    assert state(blocks) is BlockState.SCALED_IN


class Unreadable:
    """A status that raises where it is read."""

    state = 4
    message = None
    exit_code = 0

    def __init__(self, path: Path | None = None) -> None:
        self.stdout_path = path

    @property
    def stdout_summary(self) -> str:
        raise UnicodeDecodeError("utf-8", b"\xe9", 0, 1, "invalid continuation byte")

    stderr_summary = stdout_summary


WRONG = {
    "None": None,
    "a text": "RUNNING",
    "a mapping": {"0": RUNS},
    "a number": 5,
    "none": [],
    "too many": [RUNS, RUNS],
    "no state": [None],
    "an exception": OSError("the controller is busy"),
    "an exception without a text": ValueError(),
    "an exit": SystemExit(3),
}


@pytest.mark.parametrize("answer", WRONG.values(), ids=WRONG.keys())
def test_an_answer_that_is_none_changes_nothing_and_is_told(
    answer: Any, blocks: Blocks, answers: Answers, caplog: pytest.LogCaptureFixture
) -> None:
    answers.states = answer
    for _ in range(3):
        assert blocks.poll(set) == 0
    assert len(blocks.living()) == 1
    assert "report" in blocks.trouble
    assert len([one for one in caplog.records if one.levelno == logging.WARNING]) == 1, "once"
    answers.states = [RUNS]
    blocks.poll(set)
    assert not blocks.trouble


def test_a_call_that_hangs_is_told_once(
    blocks: Blocks, answers: Answers, caplog: pytest.LogCaptureFixture
) -> None:
    for seconds in (120, 250, 1000):
        answers.states = TimeoutError(f"status() has not returned for {seconds} s")
        blocks.poll(set)
    assert blocks.trouble.endswith("for 1000 s")
    answers.states = OSError("the controller is busy")
    blocks.poll(set)
    assert len([one for one in caplog.records if one.levelno == logging.WARNING]) == 2


def test_failures_that_differ_in_times_only_are_told_once(
    blocks: Blocks, answers: Answers, caplog: pytest.LogCaptureFixture
) -> None:
    for text in (
        "2026-11-30T03:58:27.104Z slurm_load_jobs error: timed out",
        "2026-11-30T03:58:57.310Z slurm_load_jobs error: timed out",
        "error: 30/11/2026 3:59 no route to the controller",
        "error: 30/11/2026 4:01 no route to the controller",
        "2026-12-01T00:00:01.000Z slurm_load_jobs error: timed out",
        "no answer since 1796011107.25, waited 250ms",
        "no answer since 1796011107, waited 2 min",
    ):
        answers.states = OSError(text)
        blocks.poll(set)
    assert text in blocks.trouble
    assert len(caplog.records) == 3
    answers.states = [RUNS]
    blocks.poll(set)
    answers.states = OSError(text)
    blocks.poll(set)
    assert len(caplog.records) == 4, "it had answered"


def test_ports_and_numbers_of_jobs_are_no_times(
    blocks: Blocks, answers: Answers, caplog: pytest.LogCaptureFixture
) -> None:
    texts = ["10.0.0.12:6379 is gone", "10.0.0.13:6379 is gone", "n1:22 is gone", "n2:22 is gone"]
    texts += ["job 20261130001 is gone", "job 20261130002 is gone"]
    for text in [*texts, *texts]:
        answers.states = OSError(text)
        blocks.poll(set)
    assert len(caplog.records) == len(texts)


def test_failures_with_another_number_each_are_told_a_bounded_number_of_times(
    blocks: Blocks, answers: Answers, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(1000):
        answers.states = OSError(f"request {number} was dropped")
        blocks.poll(set)
    assert len(caplog.records) == 16
    assert "request 999" in blocks.trouble


@pytest.mark.parametrize("answer", WRONG.values(), ids=WRONG.keys())
def test_a_cancellation_without_an_answer_leaves_the_job_to_be_cancelled(
    answer: Any, blocks: Blocks, answers: Answers
) -> None:
    answers.cancels = answer
    blocks.take_away(blocks.living())
    assert blocks.living()
    answers.cancels = [True]
    blocks.take_away(blocks.living())
    assert not blocks.living()


@pytest.mark.parametrize("given", ["RUNNING", None, 1e999, 99, object()])
def test_a_state_that_is_unknown_is_that_of_a_living_job(given: Any) -> None:
    status = BlockStatus(given)
    assert not read_status(status).terminal


def test_output_in_any_encoding_is_read(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"x" * 10_000 + b"bienvenue au p\xe9age\n")
    status = read_status(Unreadable(path))
    assert status.state is BlockState.COMPLETED
    assert status.stdout_summary is not None
    assert status.stdout_summary.endswith("bienvenue au p\ufffdage\n")
    assert len(status.stdout_summary) == 2000
    assert "invalid continuation byte" in (status.stderr_summary or "")


def test_texts_of_a_provider_can_be_written_anywhere() -> None:
    status = BlockStatus(BlockState.FAILED, "\udce9", 1, b"\xe9")  # type: ignore[arg-type]
    assert read_status(status).message == "\\udce9"
    assert read_status(status).stdout_summary == "\ufffd"


class Odd(Processes):
    """A provider whose jobs are processes, and whose next states the test sets."""

    def __init__(self) -> None:
        super().__init__()
        self.script: list[Any] = []
        self.asked: list[int] = []
        self.is_asked = threading.Semaphore(0)

    def status(self, jobs: list[str]) -> Any:
        self.asked.append(len(self.jobs))
        self.is_asked.release()
        answer = self.script.pop(0) if self.script else super().status(jobs)
        if isinstance(answer, BaseException):
            raise answer
        return answer(jobs) if callable(answer) else answer


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Executor]]:
    """Yields a function that makes an executor with blocks, which is shut down when the test ends."""
    made: list[tuple[Executor, Processes]] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gristmill._nodes.scaler._POLL_S", 0.01)

    def make(provider: Processes, **options: Any) -> Executor:
        placement = on.provider(provider, max_workers_per_node=1, **options)
        made.append((Executor(nodes=placement), provider))
        return made[-1][0]

    yield make
    for executor, provider in made:
        executor.shutdown(cancel_futures=True)
        provider.close()


def test_a_working_job_that_is_reported_as_ended_is_not_replaced(
    make: Callable[..., Executor], gate: Gate
) -> None:
    provider = Odd()
    executor = make(provider, strategy_period=0.05)
    held = executor.submit(calls.enter, gate.path)
    gate.wait_entered()
    provider.script = [[ENDED] for _ in range(4)]
    for _ in range(6 + len(provider.asked)):
        provider.is_asked.acquire()
    gate.open()
    assert held.result() is None
    assert len(provider.jobs) == 1


def test_blocks_are_managed_after_any_answer(make: Callable[..., Executor]) -> None:
    provider = Odd()
    provider.prefix = "exit 3"
    provider.script = [*WRONG.values(), lambda jobs: [Unreadable() for _ in jobs]]
    executor = make(provider, strategy_period=0.05)
    with pytest.raises(StartError, match="its job ended before any of its nodes joined"):
        executor.submit(calls.nothing).result()


class Hanging(Processes):
    """A provider one of whose methods does not return until the test ends."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.hangs = threading.Event()
        self.is_over = threading.Event()
        self.cancelled: list[str] = []
        setattr(self, name, self._hang)

    def cancel(self, jobs: Any) -> Any:
        self.cancelled += jobs
        return super().cancel(jobs)

    def _hang(self, *arguments: Any) -> Any:
        self.hangs.set()
        self.is_over.wait()
        return []

    def close(self) -> None:
        self.is_over.set()
        super().close()


def _set_limits(monkeypatch: pytest.MonkeyPatch, **seconds: Any) -> None:
    """Replaces the limits of all methods of a provider."""
    before = blocks_module._LIMITS.items()
    limits = {name: dataclasses.replace(one, **seconds) for name, one in before}
    monkeypatch.setattr(blocks_module, "_LIMITS", limits)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports waits at once, and makes the last ones short."""
    monkeypatch.setattr(outside_calls, "_REPORTED_S", 0.0)
    _set_limits(monkeypatch, last_s=0.01)


@pytest.mark.parametrize("name", ["submit", "status", "cancel"])
def test_the_end_does_not_wait_for_a_call_that_hangs(
    name: str, make: Callable[..., Executor], soon: None, caplog: pytest.LogCaptureFixture
) -> None:
    provider = Hanging(name)
    executor = make(provider, strategy_period=0.05)
    future = executor.submit(calls.same, 1)
    if name != "submit":
        assert future.result() == 1
    if name != "cancel":
        provider.hangs.wait()
        waiting = executor.submit(calls.same, 1)
        said = dict(executor._node_failures())["the batch system"]
        assert said.startswith(f"{name}() of the provider has not returned for")
        if name == "submit":
            assert said.split(" for ")[0] in executor.explain(waiting)
    executor.shutdown(cancel_futures=True)
    if name == "status":
        assert len(provider.cancelled) == len(provider.jobs) > 0
    else:
        assert f"{name}() of the provider has not returned" in caplog.text


def test_tasks_fail_when_a_call_never_returns_and_there_is_no_node(
    make: Callable[..., Executor], soon: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = Hanging("submit")
    _set_limits(monkeypatch, usual_s=0.01)
    monkeypatch.setattr("gristmill._nodes.scaler._SILENCE_MAX_S", 0.05)
    executor = make(provider, strategy_period=0.05, block_error_handler=False)
    with pytest.raises(StartError, match=r"submit\(\) of the provider has not returned"):
        executor.submit(calls.nothing).result()


def test_a_job_that_was_submitted_too_late_is_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _set_limits(monkeypatch, usual_s=0.01)
    goes_on, cancelled = threading.Event(), threading.Event()

    class Slow(Answers):
        def submit(self, command: str, tasks_per_node: int, job_name: str) -> str:
            goes_on.wait()
            return "late"

        def cancel(self, jobs: list[str]) -> Any:
            assert jobs == ["late"]
            cancelled.set()
            return [True]

    blocks = Blocks(Slow(), "test", lambda number: "run")
    assert not blocks.submit()
    assert "has not returned" in (blocks.statuses()["0"].message or "")
    goes_on.set()
    cancelled.wait()


def test_explain_tells_that_a_job_waits_in_the_queue(make: Callable[..., Executor]) -> None:
    class Queue(Processes):
        def submit(self, command: str, tasks_per_node: int, job_name: str) -> str:
            return "17"

        def status(self, jobs: list[str]) -> list[BlockStatus]:
            return [BlockStatus(BlockState.PENDING, "Priority") for _ in jobs]

    executor = make(Queue(), strategy_period=0.05)
    future = executor.submit(calls.nothing)
    said = "block 0: its job 17 is pending: Priority, and none of its nodes has joined yet"
    while said not in executor.explain(future):
        assert not future.done()


def test_long_texts_of_a_provider_are_cut() -> None:
    text = "begin" + "y" * 1_000_000 + "end"
    status = read_status(BlockStatus(BlockState.FAILED, text, 1, text, text))
    texts = [status.message, status.stdout_summary, status.stderr_summary]
    message, *outputs = [one or "" for one in texts]
    assert [len(one) for one in (message, *outputs)] == [2000] * 3
    assert message.startswith("begin")
    assert all(output.endswith("end") for output in outputs)
    assert len(reason_of(ValueError(text))) == 2000


def test_blocks_that_have_ended_are_remembered_in_a_bounded_number(
    blocks: Blocks, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks_module, "_ENDED_MAX", 4)
    assert blocks.submit()
    blocks.see(connected("0") + connected("1"), 0)
    blocks.take_away(blocks.living()[:1])
    for _ in range(20):
        answers.jobs.clear()
        assert blocks.submit()
        blocks.take_away(blocks.living()[1:])
        assert len(blocks.statuses()) <= 6, "one lives, four have ended, one is new"
    assert [block.number for block in blocks.living()] == ["1"]
    assert list(blocks.statuses()) == list(blocks.jobs()) == ["0", "1", "18", "19", "20", "21"]
    assert blocks.statuses()["0"].has_joined, "an error handler sees that blocks have worked"
    assert blocks.submit()
    assert answers.jobs[-1].endswith("block-22"), "no number is used again"
