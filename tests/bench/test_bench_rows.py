"""The rows of ``./dev bench`` call the engines themselves: no future of the suite, no wrapper that would be measured."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor

from benches.adapters.gristmill_engine import GristmillEngine
from benches.adapters.kernels import OursEngine
from benches.adapters.pools import PoolEngine, ProcessPoolEngine
from benches.harness import opened

import gristmill
from gristmill.parsl.engine_futures import EngineFuture


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
        assert type(pool.submit(abs, -1)) is type(pool.pool.apply_async(abs, (-1,)))
        assert isinstance(kernel.submit(abs, -1), EngineFuture)
