"""Dask distributed and Ray, each with workers of this machine."""

from collections.abc import Iterable
from operator import methodcaller
from typing import Any

from benches.adapters.base import Engine, share_paths, suite

_DASK_OPENING = """
from distributed import Client, LocalCluster
cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
client = Client(cluster)
client.submit(noop, 1).result()
"""

#: Room for a 100 MB array both ways, several times.
STORE_BYTES = 1_500_000_000

_RAY_OPENING = """
import os
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
import ray
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error",
    _temp_dir=os.getcwd())
ray.get(ray.remote(noop).remote(1))
"""


class DaskEngine(Engine):
    """`Client.submit` on processes, no dashboard; keys are never reused (`pure=False`)."""

    key = "dask"
    name = "Dask distributed"
    module = "distributed"
    distribution = "distributed"
    accepts_futures = True
    opening = _DASK_OPENING

    #: `gristmill.bench`'s.
    backend: Any

    def start(self) -> None:
        share_paths()
        self.backend = self.connected()
        self.submit = self.backend.submit
        self.result = methodcaller("result")

    def connected(self) -> Any:
        """Makes a client, and the cluster too."""
        return suite("clusters").DaskHere(self.workers)

    def close(self) -> None:
        self.backend.shutdown()

    def collect(self, futures: Iterable[Any]) -> list[Any]:
        found: list[Any] = self.backend.client.gather(list(futures))
        return found


class RayEngine(Engine):
    """Ray with its defaults, no dashboard, no usage report, no log in our terminal; its references are the futures."""

    key = "ray"
    name = "Ray"
    module = "ray"
    distribution = "ray"
    accepts_futures = True
    opening = _RAY_OPENING

    #: `gristmill.bench`'s.
    backend: Any

    def start(self) -> None:
        share_paths()
        self.backend = self.connected()
        self.submit = self.backend.call
        self.result = self.backend.ray.get

    def connected(self) -> Any:
        """Connects to a node, which it starts."""
        return suite("clusters").RayHere(self.workers, object_store_memory=STORE_BYTES)

    def close(self) -> None:
        self.backend.shutdown()

    def collect(self, futures: Iterable[Any]) -> list[Any]:
        found: list[Any] = self.backend.ray.get(list(futures))
        return found
