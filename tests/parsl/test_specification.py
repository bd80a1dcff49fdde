"""The requests that apps can make with ``parsl_resource_specification``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import gristmill.parsl as parsl
from gristmill.parsl import GristmillExecutor
from gristmill.parsl._kernel.executors.specification import Specification, read
from gristmill.parsl.executors.errors import InvalidResourceSpecification

import calls


def seen_gpus(parsl_resource_specification: Any = None) -> str:
    return calls.seen_gpus()


def test_an_app_gets_the_gpus_that_it_asks_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5")
    config = parsl.Config(executors=[GristmillExecutor(max_workers=2)], run_dir=str(tmp_path))
    with parsl.load(config):
        app = parsl.python_app(seen_gpus)
        asked = {"gpus": 2, "cores": 2, "memory": 100}
        assert app(parsl_resource_specification=asked).result() == "4,5"


def test_the_words_of_parsl_are_those_of_the_engine() -> None:
    asked = read({"cores": 2, "gpus": 0.5, "memory": 3, "priority": 1, "walltime": 9})
    assert asked == Specification(1, 9, 2, 0.5, 3)
    options = asked.options()
    assert (options["memory"], options["timeout"], options["cores"]) == (3_000_000, 9, 2)


@pytest.mark.parametrize(
    "wrong",
    [{"disk": 1}, {"cores": 0}, {"gpus": 1.5}, {"gpus": "all"}, {"memory": 1.5}, {"walltime": -1}],
)
def test_what_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidResourceSpecification) as caught:
        read(wrong)
    assert str(next(iter(wrong))) in str(caught.value)


def test_a_call_may_ask_for_something_though_its_function_has_no_such_parameter(
    engine_only: parsl.DataFlowKernel,
) -> None:
    @parsl.python_app
    def double(number: int) -> int:
        return 2 * number

    @parsl.bash_app
    def say(word: str) -> str:
        return f"test {word} = hello"

    asked = {"cores": 1}
    assert double(4, parsl_resource_specification=asked).result() == 8
    assert say("hello", parsl_resource_specification=asked).result() == 0
