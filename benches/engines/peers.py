"""Pools of processes; Dask distributed and Ray, each with workers of this machine."""

import multiprocessing
from typing import Literal, cast

from benches.engines.base import Engine
from gristmill_bench.executors.bare import Bare
from gristmill_bench.executors.clusters import Dask, Ray
from gristmill_bench.executors.pools import Loky, Pool, Processes

#: Space for several 100 MB arrays in both directions, bytes.
STORE_BYTES = 1_500_000_000

_DASK_OPENING = """
from distributed import Client, LocalCluster
cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
client = Client(cluster)
client.submit(noop, 1).result()
"""
_RAY_OPENING = """
import os
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
import ray
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error",
    _temp_dir=os.getcwd())
ray.get(ray.remote(noop).remote(1))
"""


def start_method() -> Literal["fork", "spawn", "forkserver"]:
    """Returns this interpreter's default start method of processes."""
    return cast(Literal["fork", "spawn", "forkserver"], multiprocessing.get_start_method())


class ProcessPoolEngine(Engine):
    """The standard library's executor with its defaults."""

    key = "ppe"
    name = "ProcessPoolExecutor"
    module = "concurrent.futures"
    chunks = (256, 1024, 4096, 8192, 32768)
    opening = (
        "from concurrent.futures import ProcessPoolExecutor as Executor\n"
        "executor = Executor(2)\nexecutor.submit(noop, 1).result()"
    )

    def open(self) -> Bare:
        return Processes(workers=self.workers, start=start_method()).open_bare()


class LokyEngine(Engine):
    """joblib's executor with its defaults. Its workers are started anew, not forked."""

    key = "loky"
    name = "loky"
    module = "loky"
    distribution = "loky"
    chunks = (256, 1024, 4096, 8192, 32768)
    opening = (
        "from loky import ProcessPoolExecutor as Executor\n"
        "executor = Executor(2)\nexecutor.submit(noop, 1).result()"
    )

    def open(self) -> Bare:
        return Loky(workers=self.workers).open_bare()


class PoolEngine(Engine):
    """The standard library's pool: `apply_async` for one task, `map` for many."""

    key = "pool"
    name = "multiprocessing.Pool"
    module = "multiprocessing"
    chunks = (256, 1024, 4096, 8192, 16384, 32768, 65536, 131072, 262144)
    opening = "from multiprocessing import Pool\npool = Pool(2)\npool.apply_async(noop, (1,)).get()"

    def open(self) -> Bare:
        return Pool(workers=self.workers, start=start_method()).open_bare()


class DaskEngine(Engine):
    """`Client.submit` on processes, no dashboard; keys are never reused (`pure=False`)."""

    key = "dask"
    name = "Dask distributed"
    module = "distributed"
    distribution = "distributed"
    accepts_futures = True
    opening = _DASK_OPENING

    def open(self) -> Bare:
        return Dask(workers=self.workers).open_bare()


class RayEngine(Engine):
    """Ray with its defaults, but no dashboard, no usage report and no log in our terminal. Its references are the
    futures.
    """

    key = "ray"
    name = "Ray"
    module = "ray"
    distribution = "ray"
    accepts_futures = True
    opening = _RAY_OPENING

    def open(self) -> Bare:
        return Ray(workers=self.workers, store_bytes=STORE_BYTES).open_bare()
