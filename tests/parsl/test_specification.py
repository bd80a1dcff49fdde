"""What apps may ask for with ``parsl_resource_specification``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import gristmill as parsl
from gristmill.parsl.errors import InvalidResourceSpecification
from gristmill.parsl.executors import GristmillExecutor
from gristmill.parsl.executors.specification import Specification, read

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
