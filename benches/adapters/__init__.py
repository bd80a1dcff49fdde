"""The list of engines: ours, what may stand in for it, and the peers."""

from benches.adapters.base import Engine
from benches.adapters.dask_engine import DaskEngine
from benches.adapters.gristmill_engine import GristmillEngine
from benches.adapters.loky_pool import LokyEngine
from benches.adapters.multiprocessing_pool import PoolEngine
from benches.adapters.parsl_engine import ParslHtexEngine, ParslThreadsEngine
from benches.adapters.process_pool import ProcessPoolEngine
from benches.adapters.ray_engine import RayEngine
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
