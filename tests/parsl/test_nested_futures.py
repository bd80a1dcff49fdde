"""Futures inside containers are waited for, on the fast path and through the graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import gristmill.parsl as parsl


@parsl.python_app
def same(value: Any) -> Any:
    return value


@parsl.python_app(cache=True)
def remembered(value: Any) -> Any:
    return value


@parsl.join_app
def joined(value: Any) -> Any:
    return same([value])


@pytest.fixture(params=["engine", "threads"])
def kernel(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    executor = (
        parsl.GristmillExecutor(max_workers=1)
        if request.param == "engine"
        else parsl.ThreadPoolExecutor()
    )
    config = parsl.Config([executor], run_dir=str(tmp_path), initialize_logging=False)
    with parsl.load(config):
        yield


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("app", [same, remembered])
@pytest.mark.parametrize(
    ("wrap", "expected"),
    [
        (lambda future: [future, 2], [1, 2]),
        (lambda future: (future,), (1,)),
        (lambda future: {"key": [future]}, {"key": [1]}),
        (lambda future: {future}, {1}),
    ],
)
def test_a_call_waits_for_futures_in_containers(
    app: Any, wrap: Callable[[Any], Any], expected: Any
) -> None:
    assert [app(wrap(same(1))).result() for _ in range(2)] == [expected, expected]


@pytest.mark.usefixtures("kernel")
def test_a_join_app_waits_for_futures_in_containers() -> None:
    assert joined([same(1), same(2)]).result() == [[1, 2]]
