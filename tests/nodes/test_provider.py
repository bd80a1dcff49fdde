"""Blocks of a provider whose jobs are processes on this machine."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gristmill import Executor, StartError, on
from gristmill._nodes.block_status import BlockStatus
from gristmill._nodes.pauses import Pauses

import calls
import forks
from processes import Processes
from stage import Gate, lives

#: The first words of every node key.
KEY = "gristmill-node-1:"
MakeBlocks = Callable[..., tuple[Executor, Processes]]


@pytest.fixture
def make_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeBlocks]:
    """Yields a function that makes executors with blocks; they are shut down when the test ends."""
    made: list[tuple[Executor, Processes]] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gristmill._nodes.scaler._POLL_S", 0.01)
    monkeypatch.setattr("gristmill._nodes.scaler.Pauses", lambda **_: Pauses(0.01, 0.01, 100))

    def make(provider: Processes, **options: object) -> tuple[Executor, Processes]:
        options = {"max_workers_per_node": 1, **options}
        placement = on.provider(provider, **options)  # type: ignore[arg-type]
        made.append((Executor(nodes=placement), provider))
        return made[-1]

    yield make
    for executor, provider in made:
        executor.shutdown(cancel_futures=True)
        provider.close()


def test_blocks_are_added_while_tasks_wait(make_blocks: MakeBlocks, gate: Gate) -> None:
    executor, provider = make_blocks(Processes(max_blocks=3))
    futures = [executor.submit(calls.enter, gate.path) for _ in range(3)]
    inside = {gate.wait_entered() for _ in range(3)}
    assert len(inside) == len(provider.jobs) == 3
    gate.open(3)
    assert [future.result() for future in futures] == [None] * 3
    assert provider.names[0].startswith("parsl.gristmill.block-0")


def test_idle_blocks_are_taken_away_and_come_again(make_blocks: MakeBlocks) -> None:
    executor, provider = make_blocks(
        Processes(max_blocks=2), max_idletime=0.0, strategy_period=0.05
    )
    assert executor.submit(calls.same, 1).result() == 1
    for job in provider.jobs:
        job.wait()
    assert executor.submit(calls.same, 2).result() == 2
    assert len(provider.jobs) > 1


def test_a_block_that_is_idle_while_another_works_is_taken_away(
    make_blocks: MakeBlocks, gate: Gate
) -> None:
    executor, provider = make_blocks(
        Processes(2, 2), strategy="htex_auto_scale", max_idletime=0.0, strategy_period=0.05
    )
    held = [executor.submit(calls.enter, gate.path, number) for number in range(2)]
    gate.wait_entered()
    gate.wait_entered()
    gate.open()
    while not any(future.done() for future in held):
        pass
    while not (ended := [job for job in provider.jobs if job.poll() is not None]):
        pass
    assert [job.returncode for job in ended] == [0]
    gate.open()
    assert [future.result() for future in held] == [0, 1], "without any budget"


def test_the_key_is_in_a_file_of_its_own(make_blocks: MakeBlocks, tmp_path: Path) -> None:
    executor, provider = make_blocks(Processes())
    executor.submit(calls.nothing).result()
    (file,) = tmp_path.glob("runinfo/000/*.key")
    assert file.read_text().startswith(KEY)
    assert file.stat().st_mode & 0o777 == 0o600
    assert KEY not in provider.commands[0]
    assert "--walltime 3600.0" in provider.commands[0]
    executor.shutdown()
    assert not file.exists()


def test_without_a_shared_folder_the_key_is_in_the_script(make_blocks: MakeBlocks) -> None:
    executor, provider = make_blocks(Processes(), is_folder_shared=False)
    executor.submit(calls.nothing).result()
    assert f"GRISTMILL_NODE_KEY={KEY}" in provider.commands[0]


def test_tasks_fail_with_what_failing_jobs_left_behind(make_blocks: MakeBlocks) -> None:
    prefix = "echo the module is missing >&2; exit 3\n"
    executor, provider = make_blocks(Processes(2, 2, prefix))
    futures = [executor.submit(calls.same, number) for number in range(10)]
    for future in futures:
        with pytest.raises(StartError, match=r"exit status 3\n.*\n?the module is missing"):
            future.result()
    assert len(provider.jobs) == 2
    assert dict(executor._node_failures())["block 0"].startswith("its job ended before")


def test_a_handler_of_the_users_own_decides_when_to_give_up(make_blocks: MakeBlocks) -> None:
    seen: list[object] = []

    def handle(blocks: object, status: dict[str, BlockStatus]) -> None:
        seen.append(status)
        if len([one for one in status.values() if one.terminal]) == 3:
            blocks.set_bad_state_and_fail_all(RuntimeError("three are enough"))  # type: ignore[attr-defined]

    executor, provider = make_blocks(
        Processes(1, 1, "exit 1\n"), block_error_handler=handle, strategy_period=0.05
    )
    with pytest.raises(StartError, match="three are enough"):
        executor.submit(calls.nothing).result()
    assert len(provider.jobs) == 3
    assert seen


def test_children_of_a_handler_and_of_a_provider_end_there(make_blocks: MakeBlocks) -> None:
    codes: list[int] = []

    class Forking(Processes):
        def submit(self, *arguments: Any) -> Any:
            child = os.fork()
            if not child:
                raise SystemExit(6)
            codes.append(forks.end_of(child))
            return super().submit(*arguments)

    def handle(blocks: Any, _: object) -> None:
        child = os.fork()
        if child:
            codes.append(forks.end_of(child))
            blocks.set_bad_state_and_fail_all(RuntimeError("one is enough"))

    executor, _ = make_blocks(Forking(1, 1, "exit 1\n"), block_error_handler=handle)
    with pytest.raises(StartError, match="one is enough"):
        executor.submit(calls.nothing).result()
    assert codes[0] == 6
    assert 0 in codes


def test_blocks_are_tried_for_ever_if_that_is_wanted(
    make_blocks: MakeBlocks, tmp_path: Path
) -> None:
    mended = tmp_path / "mended"
    executor, provider = make_blocks(
        Processes(1, 1, f"[ -e {mended} ] || exit 1\n"),
        block_error_handler=False,
        strategy_period=0.05,
    )
    future = executor.submit(calls.same, 1)
    while len(provider.jobs) < 4:
        pass
    mended.touch()
    assert future.result() == 1


@pytest.mark.slow
def test_a_block_that_ends_is_replaced_and_costs_no_task(
    make_blocks: MakeBlocks, gate: Gate
) -> None:
    executor, provider = make_blocks(Processes(), strategy_period=0.05)
    held = executor.options(loss_retries=1).submit(calls.enter, gate.path)
    first = gate.wait_entered()
    os.killpg(provider.jobs[0].pid, signal.SIGKILL)
    assert gate.wait_entered() != first
    gate.open(2)
    assert held.result() is None
    assert len(provider.jobs) == 2


def test_shutdown_without_waiting_takes_the_blocks_away_when_all_is_done(
    make_blocks: MakeBlocks, gate: Gate
) -> None:
    executor, provider = make_blocks(Processes(), strategy_period=0.05)
    held = executor.submit(calls.enter, gate.path)
    worker = gate.wait_entered()
    executor.shutdown(wait=False)
    gate.open()
    assert held.result() is None
    provider.jobs[0].wait()
    while lives(worker):
        pass


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two cores are needed")
def test_workers_are_bound_to_cores_of_their_own(make_blocks: MakeBlocks, gate: Gate) -> None:
    executor, _ = make_blocks(Processes(), max_workers_per_node=2, cpu_affinity="alternating")
    held = [executor.submit(calls.enter_and_see_cores, gate.path) for _ in range(2)]
    gate.wait_entered()
    gate.wait_entered()
    gate.open(2)
    first, second = (future.result() for future in held)
    assert first
    assert second
    assert not first & second


def test_what_cannot_be_started_fails_this_task_and_those_after_it(
    make_blocks: MakeBlocks, tmp_path: Path
) -> None:
    (tmp_path / "runinfo").write_text("a file where a folder must be")
    executor, _ = make_blocks(Processes())
    with pytest.raises(FileExistsError):
        executor.submit(calls.nothing)
    with pytest.raises(StartError, match="File exists"):
        executor.submit(calls.nothing).result()


def test_what_is_no_provider_is_refused() -> None:
    with pytest.raises(TypeError, match="not a provider of Parsl: it has no submit"):
        on.provider(object())


class Recording(Processes):
    """A provider that keeps its jobs in a table, as those of Parsl do."""

    def __init__(self) -> None:
        super().__init__(init_blocks=1)
        self.resources: dict[str, str] = {}

    def submit(self, command: str, tasks_per_node: int, job_name: str) -> str:
        job = super().submit(command, tasks_per_node, job_name)
        self.resources[job] = job_name
        return job


def test_the_callers_provider_has_no_jobs_of_a_placement(make_blocks: MakeBlocks) -> None:
    provider = Recording()
    executor, _ = make_blocks(provider)
    assert executor.submit(calls.same, 1).result() == 1
    assert provider.jobs
    assert provider.resources == {}


def test_the_callers_provider_stays_as_it_is(make_blocks: MakeBlocks) -> None:
    provider = Processes(init_blocks=0, max_blocks=1)
    before = dict(vars(provider))
    executor, _ = make_blocks(provider, init_blocks=1, max_blocks=2, parallelism=0.5)
    on.provider(provider, max_blocks=7, nodes_per_block=3, launcher=print)
    assert executor.submit(calls.same, 1).result() == 1
    assert vars(provider) == before
    assert (provider.nodes_per_block, provider.parallelism) == (1, 1.0)
    assert provider.script_dir is None
