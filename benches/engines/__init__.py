"""The engines: ours, those that may stand in for it, and the peers."""

from benches.engines.base import Engine
from benches.engines.kernels import ParslHtexEngine, ParslThreadsEngine
from benches.engines.ours import GristmillEngine
from benches.engines.peers import (
    DaskEngine,
    LokyEngine,
    PoolEngine,
    ProcessPoolEngine,
    RayEngine,
)
from benches.model import Unavailable

PEERS: dict[str, type[Engine]] = {
    engine.key: engine
    for engine in (
        ProcessPoolEngine,
        PoolEngine,
        LokyEngine,
        ParslHtexEngine,
        ParslThreadsEngine,
        RayEngine,
        DaskEngine,
    )
}
OURS = GristmillEngine.key
ENGINES: dict[str, type[Engine]] = {OURS: GristmillEngine, **PEERS}


def ours(key: str, workers: int) -> Engine:
    """Makes our engine, or a peer that stands in for it to test the harness itself."""
    return ENGINES[key](workers)


def peer(key: str, workers: int) -> Engine:
    """Makes a peer."""
    engine = PEERS[key]
    if engine.version() is None:
        raise Unavailable("not installed")
    return engine(workers)
