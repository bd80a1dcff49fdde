"""Engines that run on a cluster too, Dask and Ray, each with workers on this machine.

They are set up like Gristmill: as many workers, one thread each, no dashboards, no log files, and nothing remembered
from one call to the next.
"""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Callable, Iterable
from operator import methodcaller
from typing import Annotated, Any, ClassVar

from pydantic import Field

from gristmill.instruments import THREAD_VARIABLES
from gristmill_bench.executors.bare import Bare
from gristmill_bench.executors.base import ExecutorPlugin, scratch
from gristmill_bench.executors.groups import GroupedExecutor, Initializer
from gristmill_bench.interfaces import Backend, Future


class Dask(GroupedExecutor):
    """``distributed.Client`` on a local cluster of processes with a thread each."""

    needs: ClassVar[tuple[str, ...]] = ("distributed",)

    def start_workers(self, initializer: Initializer | None) -> Backend:
        """Starts scheduler, workers and client."""
        backend = DaskHere(self.workers, self.told_threads())
        if initializer is not None:
            # The callback also runs in workers that replace others.
            backend.client.register_worker_callbacks(initializer)
        return backend

    def open_bare(self) -> Bare:
        """Starts scheduler, workers and client. Raises ``BenchError`` if the workers are in groups."""
        if self.groups:
            return super().open_bare()
        return BareDask(DaskHere(self.workers, self.told_threads()))

    def loss_repeats(self) -> int:
        """Returns the number in Dask's configuration, three by default."""
        configured = importlib.import_module("dask").config.get
        importlib.import_module("distributed")
        return int(configured("distributed.scheduler.allowed-failures"))


class DaskClient:
    """A client of a Dask cluster.

    :param cluster: the cluster to connect to, or its address.
    """

    def __init__(self, cluster: Any) -> None:
        #: The client of ``distributed``.
        self.client = importlib.import_module("distributed").Client(cluster, timeout=30)

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        """Submits a call; two equal calls run twice."""
        future: Future = self.client.submit(function, *args, pure=False, **kwargs)
        return future

    def shutdown(self) -> None:
        """Leaves the cluster."""
        self.client.close()


class DaskHere(DaskClient):
    """A client with a cluster of its own on this machine."""

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


class BareDask(Bare):
    """A client's own ``submit``, with keys that are never used again, and ``gather``."""

    def __init__(self, client: DaskClient) -> None:
        self._client = client
        self.submit = client.submit
        self.result = methodcaller("result")

    def close(self) -> None:
        """Leaves the cluster; a cluster of the client's own ends."""
        self._client.shutdown()

    def collect(self, futures: Iterable[Any]) -> list[Any]:
        """Waits for all results together."""
        found: list[Any] = self._client.client.gather(list(futures))
        return found


class Ray(ExecutorPlugin):
    """Ray's tasks, of one core each, on a node of their own."""

    needs: ClassVar[tuple[str, ...]] = ("ray",)
    without_groups: ClassVar[str] = "Ray starts more processes than it has workers"

    #: Bytes of the node's object store; Ray chooses if not given.
    store_bytes: Annotated[int, Field(ge=1)] | None = None

    def open(self) -> RayHere:
        """Starts the node."""
        store = self.store_bytes
        return RayHere(self.workers, **({} if store is None else {"object_store_memory": store}))

    def open_bare(self) -> Bare:
        """Starts the node."""
        return BareRay(self.open())

    def loss_repeats(self) -> int:
        """Returns Ray's ``max_retries``, three by default."""
        return int(os.environ.get("RAY_TASK_MAX_RETRIES", 3))


class _RayFuture:
    """The result of a Ray task, as a future and as an argument."""

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

    :param connection: arguments of ``ray.init`` that name the cluster.
    """

    def __init__(self, **connection: Any) -> None:
        # Without this Ray would write and send a report during a measurement.
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        #: The module ``ray``.
        self.ray = importlib.import_module("ray")
        self.ray.init(
            log_to_driver=False,
            configure_logging=False,
            logging_level=logging.CRITICAL,
            **connection,
        )
        self._remote: dict[Callable[..., Any], Any] = {}

    def call(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Calls a function remotely and returns Ray's reference to its result."""
        remote = self._remote.get(function)
        if remote is None:
            # Ray takes functions and classes, and refuses other callables.
            plain = function if hasattr(function, "__code__") else _plain(function)
            remote = self._remote[function] = self.ray.remote(plain)
        return remote.remote(*args, **kwargs)

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> _RayFuture:
        """Calls a function remotely and returns a future."""
        args = tuple(map(_reference, args))
        kwargs = {name: _reference(one) for name, one in kwargs.items()}
        return _RayFuture(self.call(function, *args, **kwargs))

    def shutdown(self) -> None:
        """Leaves the cluster; a cluster that this client started ends."""
        self.ray.shutdown()


class RayHere(RayClient):
    """A client with a node of its own on this machine.

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


class BareRay(Bare):
    """Ray's own references in the place of futures."""

    def __init__(self, client: RayClient) -> None:
        self._client = client
        self.submit = client.call
        self.result = client.ray.get

    def close(self) -> None:
        """Leaves the cluster; a cluster that the client started ends."""
        self._client.shutdown()

    def collect(self, futures: Iterable[Any]) -> list[Any]:
        """Waits for all results together."""
        found: list[Any] = self._client.ray.get(list(futures))
        return found


def _plain(call: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: call(*args, **kwargs)


def _reference(argument: Any) -> Any:
    return argument.reference if type(argument) is _RayFuture else argument
