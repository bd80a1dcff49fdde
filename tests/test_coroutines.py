"""``async`` functions are refused at once, with a message and without a warning."""

from __future__ import annotations

import asyncio
import functools
import warnings
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

import gristmill
from gristmill import Context, Executor, UnpicklableError


async def fetch(*_arguments: Any) -> int:
    await asyncio.sleep(0)
    return 1


async def numbers(*_arguments: Any) -> AsyncIterator[int]:
    yield 1


class Client:
    async def fetch(self, *_arguments: Any) -> int:
        return 1

    @classmethod
    async def make(cls, *_arguments: Any) -> int:
        return 1

    async def __call__(self, *_arguments: Any) -> int:
        return 1


ASYNC: list[Callable[..., Any]] = [
    fetch,
    numbers,
    functools.partial(fetch, 1),
    functools.partial(functools.partial(fetch, 1), 2),
    functools.partial(Client().fetch, 1),
    Client().fetch,
    Client.make,
    Client(),
    functools.partial(Client()),
]


@pytest.mark.parametrize("function", ASYNC)
def test_a_coroutine_function_is_refused_when_it_is_given(
    shared: Executor, function: Callable[..., Any]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for give in (
            lambda: shared.submit(function, 1),
            lambda: shared.options(retries=2).submit(function, 1),
            lambda: shared.map(function, [1]),
            lambda: shared.submit_many(function, [1]),
            lambda: shared.options().map(function, [1]),
            lambda: Context(function),
            lambda: Context(dict).submit(function),
            lambda: Executor(1, initializer=function),
        ):
            with pytest.raises(TypeError, match="coroutine function"):
                give()


def submit_here() -> list[str]:
    said = []
    executor = gristmill.current_executor()
    for give in (
        lambda: executor.submit(fetch, 1),
        lambda: executor.options(retries=1).submit(fetch, 1),
        lambda: list(executor.map(fetch, [1])),
    ):
        try:
            give()
        except TypeError as error:
            said.append(str(error))
    return said


def test_tasks_cannot_submit_coroutine_functions_either(shared: Executor) -> None:
    said = shared.submit(submit_here).result()
    assert len(said) == 3
    assert all("coroutine function" in text for text in said)


@pytest.mark.parametrize("make", [fetch, numbers])
def test_a_task_that_gives_a_coroutine_is_told_what_to_do(
    shared: Executor, make: Callable[..., Any], capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises((UnpicklableError, gristmill.RemoteError), match=r"asyncio\.run"):
        shared.submit(lambda: make(1)).result()
    assert shared.submit(lambda: asyncio.run(fetch())).result() == 1
    assert "never awaited" not in capfd.readouterr().err
