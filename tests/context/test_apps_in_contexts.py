"""Contexts of apps, named in their decorators and in the resource specification of a call."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import gristmill.parsl as parsl
from gristmill import Context, ContextError
from gristmill.parsl import Config, GristmillExecutor, bash_app, python_app

from setups import Log, load


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[parsl.DataFlowKernel]:
    """Yields a kernel on the engine."""
    executor = GristmillExecutor(max_workers_per_node=2)
    config = Config(executors=[executor], run_dir=str(tmp_path / "runinfo"))
    with parsl.load(config) as kernel:
        yield kernel


@pytest.mark.usefixtures("kernel")
def test_calls_of_an_app_run_in_the_context_of_its_decorator(log: Log) -> None:
    context = Context(load, log)

    @python_app(context=context)
    def find(place: int, inputs: Sequence[Any] = ()) -> Any:
        return context["model"][place] + len(inputs)

    assert [find(place).result() for place in range(3)] == [0, 1, 2]
    assert find(5, inputs=[find(1)]).result() == 6, "by way of the graph"
    assert len(log.pids("load")) == 1


@pytest.mark.usefixtures("kernel")
def test_one_call_names_its_context_in_its_specification(log: Log) -> None:
    context = Context(load, log)

    @python_app
    def find(place: int, parsl_resource_specification: Any = None) -> Any:
        return context["model"][place]

    asked = {"context": context}
    assert find(4, parsl_resource_specification=asked).result() == 4
    with pytest.raises(ContextError, match="does not have context 'load'"):
        find(4).result()


@pytest.mark.usefixtures("kernel")
def test_results_in_contexts_are_remembered(log: Log) -> None:
    context = Context(load, log)

    @python_app(context=context, cache=True)
    def find(place: int, inputs: Sequence[Any] = ()) -> tuple[int, int]:
        log.add("run")
        return context["model"][place], os.getpid()

    assert find(4).result() == find(4).result()
    assert find(4, inputs=[1]).result() == find(4, inputs=[1]).result()
    assert len(log.pids("run")) == 2


@pytest.mark.usefixtures("kernel")
def test_bash_apps_have_contexts_too(log: Log, tmp_path: Path) -> None:
    context = Context(load, log)
    path = str(tmp_path / "out")

    @bash_app(context=context)
    def write(place: int, path: str) -> str:
        return f"echo {context['model'][place]} > {path}"

    assert write(7, path).result() == 0
    assert Path(path).read_text() == "7\n"


@pytest.mark.usefixtures("kernel")
def test_a_specification_that_makes_no_sense_is_refused(log: Log) -> None:
    from gristmill.parsl.executors.errors import InvalidResourceSpecification

    @python_app
    def call(parsl_resource_specification: Any = None) -> None:
        pass

    for asked in ({"context": "model"}, {"context": Context(load, log), "cores": 2}):
        with pytest.raises(InvalidResourceSpecification):
            call(parsl_resource_specification=asked).result()
