"""Hostile values and tasks of the surface fuzzer."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from surface_judge import RESULT_S, Own, Trouble, judge

if TYPE_CHECKING:
    from surface_world import World


class Hostile:
    """An object whose special methods raise, or call the executor, as the batch decides."""

    def __init__(self, world: World) -> None:
        self.world = world

    def _turn(self) -> None:
        if self.world.random.random() < 0.5:
            raise Own("hostile")
        self.world.interfere()

    def __reduce__(self) -> Any:
        self._turn()
        return int, (3,)

    def __len__(self) -> int:
        raise Own("len")

    def __repr__(self) -> str:
        raise Own("repr")

    def __eq__(self, other: object) -> bool:
        raise Own("eq")

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise Own("bool")

    def __index__(self) -> int:
        raise Own("index")

    def __float__(self) -> float:
        raise Own("float")


class Iterates:
    """An iterable that ends, raises or makes calls at a random point."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.left = world.random.randrange(40)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __len__(self) -> int:
        raise Own("len")

    def __next__(self) -> Any:
        self.left -= 1
        if self.left < 0:
            raise StopIteration
        choice = self.world.random.random()
        if choice < 0.05:
            raise Own("next")
        if choice < 0.2:
            self.world.interfere()
        return self.world.random.choice((1, "x", [1], None, Hostile(self.world)))


class Dies:
    """An object whose destructor makes calls."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.itself = self if world.random.random() < 0.5 else None

    def __del__(self) -> None:
        self.world.interfere()


def same(value: Any = None, *_more: Any, **_named: Any) -> Any:
    return value


def fail(value: Any = None) -> None:
    raise Own(value)


def stop(*_values: Any) -> None:
    raise StopIteration


def leave(*_values: Any) -> None:
    os._exit(3)


def exit_(*_values: Any) -> None:
    raise SystemExit(2)


async def coroutine(*_values: Any) -> None:
    pass


def inside(seed: int) -> list[str]:
    """Makes calls on the task's own executor; returns the faults."""
    import gristmill

    draw = random.Random(seed)
    executor = gristmill.current_executor()
    troubles = []
    values: list[Any] = [
        -1,
        0,
        1,
        2**64,
        10**400,
        math.nan,
        math.inf,
        "x",
        True,
        None,
        0.5,
        [],
        same,
    ]
    names = "timeout start_within retries loss_retries timeout_retries priority grace views cores gpus memory context"
    for _ in range(10):
        option, value = draw.choice(names.split()), draw.choice(values)
        function = draw.choice((same, fail, stop, exit_, coroutine, None, len))
        calls: list[tuple[str | None, Callable[[], Any]]] = [
            (option, lambda option=option, value=value: executor.options(**{option: value})),
            (None, lambda function=function: executor.submit(function, 1).result(RESULT_S)),
            (
                None,
                lambda function=function: list(executor.map(function, [1, 2], timeout=RESULT_S)),
            ),
            ("buffersize", lambda value=value: executor.map(same, [1], buffersize=value)),
            ("timeout", lambda value=value: executor.submit(same).result(timeout=value)),
            ("grace", lambda value=value: executor.submit(same).cancel(True, grace=value)),
            (None, lambda: executor.submit(fn=same)),
            (None, lambda function=function: executor.submit(same).add_done_callback(function)),
        ]
        named, call = draw.choice(calls)
        try:
            call()
        except (SystemExit, StopIteration):
            pass
        except BaseException as error:
            try:
                judge(error, None if isinstance(error, TimeoutError) else named)
            except Trouble as trouble:
                troubles.append(str(trouble))
    return troubles
