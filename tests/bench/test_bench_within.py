"""Shared setups run once where a worker keeps them, else once a task, and travel beside the tasks' arguments."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from gristmill_bench import Engine, resolve
from gristmill_bench.command import fields_of
from gristmill_bench.executors.here import Inline, Threads
from gristmill_bench.executors.ours import Gristmill
from gristmill_bench.executors.pools import Processes
from gristmill_bench.records.lines import JsonLines
from gristmill_bench.transformers.files import PickledFiles

EXECUTORS = [Inline(), Threads(), Processes(start="fork"), Gristmill()]
TASKS = 6


def tools(log: str, factor: int) -> dict[str, int]:
    """Sets up the tools, and appends a line to the log."""
    with open(log, "a") as lines:
        print(os.getpid(), file=lines)
    return {"factor": factor}


def scaled(held: dict[str, int], number: int, more: int = 0) -> int:
    return held["factor"] * number + more


def where(held: dict[str, int]) -> int:
    return os.getpid()


def plain(number: int) -> int:
    return number + 1


def broken() -> None:
    raise OSError("no such model")


def setups(log: Path) -> list[int]:
    return [int(line) for line in log.read_text().split()]


@pytest.fixture(params=EXECUTORS, ids=lambda one: type(one).__name__)
def backend(request: pytest.FixtureRequest) -> Any:
    opened = request.param.open()
    yield opened
    opened.shutdown()


def test_it_is_set_up_once_for_each_process_that_runs_tasks(backend: Any, tmp_path: Path) -> None:
    engine = Engine(backend).within(tools, str(log := tmp_path / "log"), 3)
    assert list(engine.map(scaled, range(TASKS))) == [3 * number for number in range(TASKS)]
    assert engine.submit(where).result(30) > 0
    processes = setups(log)
    assert len(processes) == len(set(processes)) <= 2


def test_it_is_set_up_for_each_task_where_nothing_is_kept(backend: Any, tmp_path: Path) -> None:
    engine = Engine(backend).within(tools, str(log := tmp_path / "log"), 3, reuse="none")
    assert list(engine.map(scaled, range(TASKS))) == [3 * number for number in range(TASKS)]
    assert len(setups(log)) == TASKS


def test_workers_of_a_context_are_forked_from_one_setup(tmp_path: Path) -> None:
    backend = Gristmill(workers=2).open()
    try:
        engine = Engine(backend).within(tools, str(log := tmp_path / "log"), 1)
        assert os.getpid() not in {engine.submit(where).result(30) for _ in range(TASKS)}
        assert len(setups(log)) == 1
    finally:
        backend.shutdown()


@pytest.mark.slow
def test_our_executor_starts_an_interpreter_for_each_call_if_asked_to(tmp_path: Path) -> None:
    backend = Gristmill(workers=1, reuse="none").open()
    try:
        engine = Engine(backend).within(tools, str(log := tmp_path / "log"), 5)
        assert [engine.submit(scaled, number).result(60) for number in range(2)] == [0, 5]
        assert len(set(setups(log))) == 2
    finally:
        backend.shutdown()


def test_tasks_inside_and_outside_take_each_others_futures_and_are_noted_together(
    backend: Any, tmp_path: Path
) -> None:
    records, transformer = JsonLines().open(tmp_path), PickledFiles().open(tmp_path)
    engine = Engine(backend, records=records, transformer=transformer)
    inside = engine.within(tools, str(tmp_path / "log"), 10)
    four = engine.submit(plain, inside.submit(scaled, engine.submit(plain, 2), more=5))
    other = engine.within(tools, str(tmp_path / "log"), 100).submit(scaled, 1, more=four)
    assert (four.result(30), other.result(30)) == (36, 136)
    assert (engine.submitted, inside.submitted) == (4, 4)
    engine.finish()
    records.close()
    transformer.close()
    lines = [json.loads(line) for line in (tmp_path / "tasks.jsonl").read_text().splitlines()]
    noted = {line["task_id"]: (line["name"], line["parent_task_ids"]) for line in lines}
    assert noted == {
        "0": ("plain", []),
        "1": ("scaled", ["0"]),
        "2": ("plain", ["1"]),
        "3": ("scaled", ["2"]),
    }


def test_what_the_setup_raises_is_the_error_of_the_task(backend: Any) -> None:
    task = Engine(backend).within(broken).submit(where)
    assert "no such model" in str(task.exception(30))
    assert Engine(backend).submit(plain, 1).result(30) == 2


def test_none_can_be_chosen_on_the_command_line_too() -> None:
    words = ["--app.name=fib", "--executor.name=gristmill", "--executor.reuse", "none"]
    benchmark = resolve(fields_of(words))
    assert benchmark.to_toml() == resolve(tomllib.loads(benchmark.to_toml())).to_toml()
    assert benchmark.executor.model_dump()["reuse"] == "none"


def test_a_setup_by_value_is_set_up_once_too(tmp_path: Path) -> None:
    backend = Processes(workers=1, start="fork").open()
    log = tmp_path / "log"
    try:
        by_value = ByValue(cloudpickle.dumps(lambda: tools(str(log), 2)))
        engine = Engine(backend).within(by_value)
        assert list(engine.map(scaled, range(3))) == [0, 2, 4]
        assert len(setups(log)) == 1
    finally:
        backend.shutdown()


class ByValue:
    """A value that becomes another object each time it is sent."""

    def __init__(self, code: bytes) -> None:
        self._code = code

    def __call__(self) -> Any:
        return cloudpickle.loads(self._code)()
