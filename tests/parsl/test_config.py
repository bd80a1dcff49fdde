"""A configuration is checked when it is made, not when it is used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gristmill.parsl import Config, MonitoringHub
from gristmill.parsl.dataflow.dependency_resolvers import SHALLOW_DEPENDENCY_RESOLVER
from gristmill.parsl.dataflow.memoization import BasicMemoizer
from gristmill.parsl.logconfigs.json import JSONLogging


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retries", "1"),
        ("internal_tasks_max_threads", 1.5),
        ("garbage_collect", "yes"),
        ("run_dir", 3),
        ("strategy", "nope"),
        ("strategy_period", "x"),
        ("max_idletime", "x"),
        ("exit_mode", "x"),
        ("memoizer", 3),
        ("dependency_resolver", 3),
        ("monitoring", True),
        ("project_name", 3),
        ("initialize_logging", None),
        ("retry_handler", 3),
        ("std_autopath", "x"),
    ],
)
def test_a_value_of_another_type_is_refused_and_named(name: str, value: Any) -> None:
    with pytest.raises(TypeError, match=f"{name}.*{value!r}"):
        Config(**{name: value})


def test_what_is_meant_is_taken(tmp_path: Path) -> None:
    Config(
        run_dir=str(tmp_path),
        retries=2,
        max_idletime=3,
        strategy_period=0.5,
        memoizer=BasicMemoizer(),
        dependency_resolver=SHALLOW_DEPENDENCY_RESOLVER,
        monitoring=MonitoringHub(),
        project_name="mill",
        initialize_logging=JSONLogging(),
        retry_handler=lambda error, record: 1,
    )
    Config(run_dir="runs", initialize_logging=False)
