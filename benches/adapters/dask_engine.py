"""Dask distributed: a local cluster of processes with one thread each."""

import importlib
import logging
import tempfile
from collections.abc import Iterable
from operator import methodcaller
from typing import Any

from benches.adapters.base import Engine, Function, scratch, share_paths

_OPENING = """
from distributed import Client, LocalCluster
cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
client = Client(cluster)
client.submit(noop, 1).result()
"""


class DaskEngine(Engine):
    """`Client.submit` on processes, no dashboard; keys are never reused (`pure=False`)."""

    key = "dask"
    name = "Dask distributed"
    module = "distributed"
    distribution = "distributed"
    accepts_futures = True
    opening = _OPENING

    folder: tempfile.TemporaryDirectory[str]
    cluster: Any
    client: Any

    def start(self) -> None:
        share_paths()
        distributed = importlib.import_module("distributed")
        self.folder = scratch()
        self.cluster = distributed.LocalCluster(
            n_workers=self.workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            silence_logs=logging.CRITICAL,
            local_directory=self.folder.name,
        )
        self.connect(self.cluster)

    def connect(self, cluster: Any) -> None:
        """Makes the client of a cluster, which may be its address."""
        self.client = importlib.import_module("distributed").Client(cluster, timeout=30)
        client = self.client

        def submit(function: Function, *arguments: Any) -> Any:
            return client.submit(function, *arguments, pure=False)

        self.submit = submit
        self.result = methodcaller("result")

    def close(self) -> None:
        self.client.close()
        self.cluster.close()
        self.folder.cleanup()

    def collect(self, futures: Iterable[Any]) -> list[Any]:
        found: list[Any] = self.client.gather(list(futures))
        return found
