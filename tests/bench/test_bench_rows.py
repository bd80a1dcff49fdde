"""The rows of ``./dev bench`` call the engines directly: no future and no wrapper of the suite is measured."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing.pool import AsyncResult

import pytest
from benches.engines import ENGINES
from benches.engines.kernels import KERNELS, OursEngine
from benches.engines.ours import GristmillEngine
from benches.engines.peers import PoolEngine, ProcessPoolEngine
from benches.harness import opened
from benches.work import step

import gristmill
from gristmill.parsl._kernel.engine_futures import EngineFuture
from gristmill_bench import BenchError, ExecutorPlugin
from gristmill_bench.executors.here import Threads
from gristmill_bench.executors.ours import Gristmill


def test_a_row_submits_to_the_executor_itself() -> None:
    peer, ours, pool, kernel = (
        ProcessPoolEngine(1),
        GristmillEngine(1),
        PoolEngine(1),
        OursEngine(1),
    )
    with opened(peer, pool, ours, kernel):
        assert peer.submit == peer.executor.submit
        assert type(peer.executor) is ProcessPoolExecutor
        assert ours.submit == ours.executor.submit
        assert type(ours.executor) is gristmill.Executor
        assert type(pool.submit(abs, -1)) is AsyncResult
        assert isinstance(kernel.submit(abs, -1), EngineFuture)


@pytest.mark.parametrize("key", sorted({**ENGINES, **KERNELS}))
def test_an_engine_runs_calls_one_by_one_and_together(key: str) -> None:
    kind = {**ENGINES, **KERNELS}[key]
    if kind.version() is None:
        pytest.skip(f"pip install {kind.distribution}")
    engine = kind(2)
    with opened(engine):
        assert engine.result(engine.submit(step, 1)) == 2
        assert engine.collect([engine.submit(step, number) for number in range(5)]) == [
            1,
            2,
            3,
            4,
            5,
        ]
        if engine.chunks:
            assert engine.map(step, range(5), engine.chunks[0]) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("plugin", [Threads(), Gristmill(loss_retries=1), Gristmill(batches=10)])
def test_an_executor_that_needs_the_wrappers_is_refused_without_them(
    plugin: ExecutorPlugin,
) -> None:
    with pytest.raises(BenchError, match="not used without the suite's wrappers"):
        plugin.open_bare()
