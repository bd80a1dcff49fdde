"""Tasks that need cores, GPUs or memory besides a worker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gristmill import (
    Context,
    ContextResources,
    Executor,
    GristmillError,
    ResourceError,
    _resources,
)

import calls
from stage import Gate

MakeExecutor = Callable[..., Executor]


def test_a_wide_task_has_its_workers_places_to_itself(
    make_executor: MakeExecutor, gate: Gate
) -> None:
    executor = make_executor(2)
    wide = executor.options(cores=2).submit(calls.enter, gate.path)
    gate.wait_entered()
    small = [executor.submit(calls.same, number) for number in range(10)]
    assert not any(future.done() for future in small)
    assert "waits for a worker" in executor.explain(small[0])
    gate.open()
    assert wide.result() is None
    assert [future.result() for future in small] == list(range(10))


def test_a_wide_task_may_use_as_many_threads(make_executor: MakeExecutor) -> None:
    executor = make_executor(2, threads_per_worker=3)
    wide = executor.options(cores=2)
    found = [
        submit(calls.seen_threads).result()
        for submit in (executor.submit, wide.submit, executor.submit)
    ]
    assert found == ["3", "6", "3"]


def test_wide_tasks_get_their_turn_among_many_small_ones(make_executor: MakeExecutor) -> None:
    executor = make_executor(2)
    wide = executor.options(cores=2)
    futures = []
    for number in range(200):
        futures += [executor.submit(calls.same, number) for _ in range(20)]
        futures.append(wide.submit(calls.same, number))
    assert sum(future.result() for future in futures) == 21 * sum(range(200))


def test_no_two_tasks_have_the_same_gpu(make_executor: MakeExecutor, gate: Gate) -> None:
    executor = make_executor(3, gpus=2)
    one = executor.options(gpus=1)
    held = [one.submit(calls.enter_and_see_gpus, gate.path) for _ in range(2)]
    gate.wait_entered(), gate.wait_entered()
    third = one.submit(calls.seen_gpus)
    assert "waits for a worker and 1 GPU;" in executor.explain(third)
    assert executor.submit(calls.same, 1).result() == 1, "one that needs none goes by"
    gate.open(2)
    assert sorted(future.result() for future in held) == ["0", "1"]
    assert third.result() in ("0", "1")


def test_shares_of_a_gpu_are_packed_on_one(make_executor: MakeExecutor, gate: Gate) -> None:
    executor = make_executor(4, gpus=2)
    half = executor.options(gpus=0.5)
    held = [half.submit(calls.enter_and_see_gpus, gate.path) for _ in range(2)]
    gate.wait_entered(), gate.wait_entered()
    assert executor.options(gpus=1).submit(calls.seen_gpus).result() == "1"
    gate.open(2)
    assert [future.result() for future in held] == ["0", "0"]


def test_a_process_never_sees_other_gpus_than_before(make_executor: MakeExecutor) -> None:
    executor = make_executor(1, gpus=4)
    seen: dict[int, set[str]] = {}
    for count in (1, 2, 1, 4, 2, 3):
        gpus, pid = executor.options(gpus=count).submit(calls.gpus_and_pid).result()
        assert len(gpus.split(",")) == count
        seen.setdefault(pid, set()).add(gpus)
    assert all(len(gpus) == 1 for gpus in seen.values())


def test_names_of_gpus_that_the_program_was_given_are_kept(
    make_executor: MakeExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-a,GPU-b")
    executor = make_executor(1)
    assert executor.options(gpus=2).submit(calls.seen_gpus).result() == "GPU-a,GPU-b"
    with pytest.raises(ResourceError, match="3 GPUs, and the executor has 2 GPUs"):
        executor.options(gpus=3).submit(calls.seen_gpus)


def test_memory_is_given_once(make_executor: MakeExecutor, gate: Gate) -> None:
    executor = make_executor(2, memory="10GB")
    large = executor.options(memory="6GB")
    first = large.submit(calls.enter, gate.path)
    gate.wait_entered()
    second = large.submit(calls.same, 2)
    said = executor.explain(second)
    assert "waits for a worker and 6 GB of memory; no task is before it" in said
    assert "Other tasks have memory that it needs" in said
    assert "as many tasks as" not in said, "a worker is idle"
    gate.open()
    assert (first.result(), second.result()) == (None, 2)


def test_who_has_the_memory_that_a_task_needs_is_said(
    make_executor: MakeExecutor, gate: Gate
) -> None:
    executor = make_executor(3, memory="10GB")
    model = Context(dict, resources=ContextResources(memory="6GB"))
    held = executor.options(context=model).submit(calls.enter, gate.path)
    gate.wait_entered()
    late = executor.options(memory="6GB").submit(calls.same, 2)
    assert "Workers with a context have memory that it needs" in executor.explain(late)
    gate.open()
    assert (held.result(), late.result()) == (None, 2)


def test_what_can_never_run_is_refused_when_it_is_submitted(make_executor: MakeExecutor) -> None:
    executor = make_executor(2, memory="10GB", gpus=0)
    with pytest.raises(ResourceError, match="needs 3 workers, and the executor has 2 workers"):
        executor.options(cores=3).submit(calls.nothing)
    with pytest.raises(ResourceError, match="bytes of memory"):
        executor.options(memory="11GB").submit(calls.nothing)
    with pytest.raises(ResourceError, match="of a GPU, and the executor has no GPU"):
        executor.options(gpus=0.1).submit(calls.nothing)


def test_a_worker_that_dies_gives_back_what_its_task_had(make_executor: MakeExecutor) -> None:
    executor = make_executor(2, gpus=1)
    with pytest.raises(GristmillError):
        executor.options(gpus=1, cores=2).submit(calls.die, 9).result()
    assert executor.options(gpus=1, cores=2).submit(calls.seen_gpus).result() == "0"


def test_a_task_that_asks_for_what_it_has_itself_is_told_so(make_executor: MakeExecutor) -> None:
    executor = make_executor(2, gpus=1)
    with pytest.raises(GristmillError, match="by tasks that wait for tasks"):
        executor.options(gpus=1).submit(calls.ask_for_what_i_have).result()
    assert executor.options(gpus=1).submit(calls.seen_gpus).result() == "0"


def test_tasks_of_tasks_may_need_something_too(make_executor: MakeExecutor) -> None:
    executor = make_executor(1, gpus=1)
    assert executor.submit(calls.child_with_gpu).result() == "0"


def test_a_map_with_needs_runs_as_many_at_a_time(
    make_executor: MakeExecutor, tmp_path: Path
) -> None:
    executor = make_executor(2, gpus=1)
    assert list(executor.options(gpus=1).map(calls.same, range(50))) == list(range(50))


@pytest.mark.parametrize(
    ("text", "bytes_"), [("4GB", 4 * 10**9), ("512 MiB", 512 * 2**20), ("1.5k", 1500), (7, 7)]
)
def test_sizes(text: int | str, bytes_: int) -> None:
    assert _resources.size(text) == bytes_


@pytest.mark.parametrize("wrong", ["much", "-1GB", "4 XB", 0, -5, 1.5, True])
def test_sizes_that_are_none(wrong: int | str) -> None:
    with pytest.raises((TypeError, ValueError), match="memory must be"):
        _resources.size(wrong)


@pytest.mark.parametrize(
    ("needs", "why"),
    [
        ({"cores": 0}, "cores must be"),
        ({"cores": 1.5}, "cores must be"),
        ({"gpus": 1.5}, "a fraction of one GPU or a whole number"),
        ({"gpus": -1}, "gpus must be between"),
        ({"gpus": 17}, "gpus must be between"),
        ({"memory": "lots"}, "memory must be"),
    ],
)
def test_needs_that_no_worker_can_have(
    make_executor: MakeExecutor, needs: dict[str, object], why: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=why):
        make_executor(1).options(**needs)  # type: ignore[arg-type]


def test_gpus_are_counted_as_the_variables_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5, 7")
    assert _resources.gpu_count() == 3
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,-1,4")
    assert _resources.gpu_count() == 1
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert _resources.gpu_count() == 0
