"""Apps with tens of thousands of futures among their arguments, and one future that tens of thousands of apps need."""

from __future__ import annotations

from gristmill.parsl import DataFlowKernel, python_app

import calls

#: A number that needs more than 16 bits.
MANY = 70_000

add = python_app(calls.add)
both = python_app(calls.both)
same = python_app(calls.same)


def test_more_futures_than_16_bits_count(engine_only: DataFlowKernel) -> None:
    leaves = [same(number) for number in range(MANY)]
    numbers = list(range(MANY))
    assert add(*leaves).result() == sum(numbers)
    assert same(leaves).result() == numbers
    assert both(inputs=leaves).result() == ((), {"inputs": numbers})
    named = {f"n{number}": leaf for number, leaf in enumerate(leaves)}
    by_name = {f"n{number}": number for number in numbers}
    assert both(**named).result() == ((), by_name)


def test_one_result_that_very_many_apps_need(engine_only: DataFlowKernel) -> None:
    root = same(1)
    dependants = [add(root, number) for number in range(MANY)]
    assert [dependant.result() for dependant in dependants] == list(range(1, MANY + 1))
