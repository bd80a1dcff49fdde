"""The list of engines: ours, what may stand in for it, and the peers."""

from benches.adapters.base import Engine
from benches.adapters.clusters import DaskEngine, RayEngine
from benches.adapters.gristmill_engine import GristmillEngine
from benches.adapters.kernels import ParslHtexEngine, ParslThreadsEngine
from benches.adapters.pools import LokyEngine, PoolEngine, ProcessPoolEngine
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
    """Makes our engine, or the one that stands in for it to try the harness itself."""
    return ENGINES[key](workers)


def peer(key: str, workers: int) -> Engine:
    """Makes a peer."""
    engine = PEERS[key]
    if engine.version() is None:
        raise Unavailable("not installed")
    return engine(workers)
