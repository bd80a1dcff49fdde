"""A stand-in for the engine, so that the screen can be tested without it: the same calls on a standard pool."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from molecular_screen.score import Model, load


class StandIn(ProcessPoolExecutor):
    """A process pool whose `map` reads its iterable lazily, a bounded window ahead."""

    def map(
        self,
        fn: Callable[..., Any],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int | None = None,
        buffersize: int | None = None,
    ) -> Iterator[Any]:
        del timeout, chunksize
        window = buffersize or 1024

        def results() -> Iterator[Any]:
            waiting: deque[Future[Any]] = deque()
            for items in zip(*iterables, strict=False):
                waiting.append(self.submit(fn, *items))
                if len(waiting) == window:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

        return results()


def open_stand_in(workers: int, model: Model) -> StandIn:
    return StandIn(
        workers,
        get_context("spawn"),
        initializer=load,
        initargs=(model,),
    )
