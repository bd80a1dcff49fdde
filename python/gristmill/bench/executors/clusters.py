"""Engines of others that run on a cluster too, Dask and Ray, each with workers of this machine.

They have what ours has: as many workers, one thread each, no dashboards, no log files, nothing remembered from one call
to the next.
"""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Callable
from typing import Any, ClassVar

from gristmill._world import THREAD_VARIABLES
from gristmill.bench.executors.base import ExecutorPlugin, scratch
from gristmill.bench.executors.groups import GroupedExecutor, Initializer
from gristmill.bench.interfaces import Backend, Future


class Dask(GroupedExecutor):
    """``distributed.Client`` on a local cluster of processes with a thread each."""

    needs: ClassVar[tuple[str, ...]] = ("distributed",)

    def start_workers(self, initializer: Initializer | None) -> Backend:
        """Starts scheduler, workers and client."""
        backend = DaskHere(self.workers, self.told_threads())
        if initializer is not None:
            # Those too that come in the place of others.
            backend.client.register_worker_callbacks(initializer)
        return backend

    def loss_repeats(self) -> int:
        """As often as Dask's configuration says: three times if that was not changed."""
        configured = importlib.import_module("dask").config.get
        importlib.import_module("distributed")
        return int(configured("distributed.scheduler.allowed-failures"))


class DaskClient:
    """A client of a Dask cluster.

    :param cluster: what it connects to, which may be an address.
    """

    def __init__(self, cluster: Any) -> None:
        #: The client itself.
        self.client = importlib.import_module("distributed").Client(cluster, timeout=30)

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        """Submits a call; two calls alike are two calls."""
        future: Future = self.client.submit(function, *args, pure=False, **kwargs)
        return future

    def shutdown(self) -> None:
        """Leaves the cluster."""
        self.client.close()


class DaskHere(DaskClient):
    """A client of a cluster of its own on this machine."""

    def __init__(self, workers: int, threads: int | None = 1) -> None:
        self._folder = scratch()
        self._cluster = importlib.import_module("distributed").LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            silence_logs=logging.CRITICAL,
            local_directory=self._folder.name,
            env=None if threads is None else dict.fromkeys(THREAD_VARIABLES, str(threads)),
        )
        super().__init__(self._cluster)

    def shutdown(self) -> None:
        """Ends client, workers and scheduler."""
        super().shutdown()
        self._cluster.close()
        self._folder.cleanup()


class Ray(ExecutorPlugin):
    """Ray's tasks, of one core each, on a node of their own."""

    needs: ClassVar[tuple[str, ...]] = ("ray",)
    without_groups: ClassVar[str] = "Ray starts more processes than it has workers"

    def open(self) -> Backend:
        """Starts the node."""
        return RayHere(self.workers)

    def loss_repeats(self) -> int:
        """Ray's ``max_retries`` where nothing else is said."""
        return int(os.environ.get("RAY_TASK_MAX_RETRIES", 3))


class _RayFuture:
    """What Ray will have, as a future and as an argument."""

    def __init__(self, reference: Any) -> None:
        self.reference = reference
        self._future = reference.future()
        self.result = self._future.result
        self.exception = self._future.exception
        self.done = self._future.done
        self.add_done_callback = self._future.add_done_callback

    def cancel(self) -> bool:
        importlib.import_module("ray").cancel(self.reference)
        return False


class RayClient:
    """A program's connection to a Ray cluster.

    :param connection: what ``ray.init`` is told of the cluster.
    """

    def __init__(self, **connection: Any) -> None:
        # A report would be written, and sent, while something is measured.
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        #: Ray itself.
        self.ray = importlib.import_module("ray")
        self.ray.init(
            log_to_driver=False,
            configure_logging=False,
            logging_level=logging.CRITICAL,
            **connection,
        )
        self._remote: dict[Callable[..., Any], Any] = {}

    def call(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Calls it remotely; gives Ray's reference to what it will return."""
        remote = self._remote.get(function)
        if remote is None:
            # Ray takes functions and classes; what is called like one is neither.
            plain = function if hasattr(function, "__code__") else _plain(function)
            remote = self._remote[function] = self.ray.remote(plain)
        return remote.remote(*args, **kwargs)

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> _RayFuture:
        """Calls it remotely; gives a future."""
        args = tuple(map(_reference, args))
        kwargs = {name: _reference(one) for name, one in kwargs.items()}
        return _RayFuture(self.call(function, *args, **kwargs))

    def shutdown(self) -> None:
        """Leaves the cluster, which ends with it if it was started by it."""
        self.ray.shutdown()


class RayHere(RayClient):
    """A node of its own on this machine.

    :param others: further arguments of ``ray.init``.
    """

    def __init__(self, workers: int, **others: Any) -> None:
        self._folder = scratch()
        super().__init__(
            num_cpus=workers, include_dashboard=False, _temp_dir=self._folder.name, **others
        )

    def shutdown(self) -> None:
        """Ends the node."""
        super().shutdown()
        self._folder.cleanup()


def _plain(call: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: call(*args, **kwargs)


def _reference(argument: Any) -> Any:
    return argument.reference if type(argument) is _RayFuture else argument
