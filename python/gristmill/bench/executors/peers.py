"""Engines of others that run on a cluster too: Dask, Ray and Parsl, each with workers of this machine.

They have what ours has: as many workers, one thread each, no dashboards, no log files, nothing remembered from one call
to the next.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
from collections.abc import Callable
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Literal

from gristmill.bench.executors.base import ExecutorPlugin, TaskTimeout
from gristmill.bench.interfaces import Backend, Future


class Dask(ExecutorPlugin):
    """``distributed.Client`` on a local cluster of processes with a thread each."""

    needs: ClassVar[tuple[str, ...]] = ("distributed",)

    def open(self) -> Backend:
        """Starts scheduler, workers and client."""
        return _Dask(self.workers)

    def loss_repeats(self) -> int:
        """As often as Dask's configuration says: three times if that was not changed."""
        configured = importlib.import_module("dask").config.get
        importlib.import_module("distributed")
        return int(configured("distributed.scheduler.allowed-failures"))


class _Dask:
    def __init__(self, workers: int) -> None:
        distributed = importlib.import_module("distributed")
        self._folder = _scratch()
        self._cluster = distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            silence_logs=logging.CRITICAL,
            local_directory=self._folder.name,
        )
        self._client = distributed.Client(self._cluster, timeout=30)

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        # Two calls alike are two calls.
        future: Future = self._client.submit(function, *args, pure=False, **kwargs)
        return future

    def shutdown(self) -> None:
        self._client.close()
        self._cluster.close()
        self._folder.cleanup()


class Ray(ExecutorPlugin):
    """Ray's tasks, of one core each, on a node of their own."""

    needs: ClassVar[tuple[str, ...]] = ("ray",)

    def open(self) -> Backend:
        """Starts the node."""
        return _Ray(self.workers)

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


class _Ray:
    def __init__(self, workers: int) -> None:
        self._ray = importlib.import_module("ray")
        self._ray.init(
            num_cpus=workers,
            include_dashboard=False,
            log_to_driver=False,
            configure_logging=False,
            logging_level=logging.CRITICAL,
        )
        self._remote: dict[Callable[..., Any], Any] = {}

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> _RayFuture:
        remote = self._remote.get(function)
        if remote is None:
            # Ray takes functions and classes; what is called like one is neither.
            plain = function if hasattr(function, "__code__") else _plain(function)
            remote = self._remote[function] = self._ray.remote(plain)
        args = tuple(map(_reference, args))
        kwargs = {name: _reference(one) for name, one in kwargs.items()}
        return _RayFuture(remote.remote(*args, **kwargs))

    def shutdown(self) -> None:
        self._ray.shutdown()


def _plain(call: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: call(*args, **kwargs)


def _reference(argument: Any) -> Any:
    return argument.reference if type(argument) is _RayFuture else argument


class Parsl(ExecutorPlugin):
    """Parsl's data-flow kernel over its own executors: HTEX, of one local block, or threads."""

    needs: ClassVar[tuple[str, ...]] = ("parsl",)
    ways: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"executor": "threads"})

    executor: Literal["htex", "threads"] = "htex"
    task_timeout: TaskTimeout = None

    def open(self) -> Backend:
        """Starts kernel and executor."""
        return _Parsl(self.workers, self.executor, self.task_timeout)


class _Parsl:
    def __init__(self, workers: int, executor: str, task_timeout: float | None) -> None:
        # Its workers are commands beside Python.
        _put_first("PATH", os.path.dirname(sys.executable))
        self._parsl = importlib.import_module("parsl")
        self._folder = _scratch()
        self._kernel = self._parsl.DataFlowKernel(
            self._parsl.Config(
                executors=[
                    self._threads(workers) if executor == "threads" else self._htex(workers)
                ],
                run_dir=self._folder.name,
                initialize_logging=False,
                strategy="none",
                usage_tracking=0,
            )
        )
        self._apps: dict[Callable[..., Any], Callable[..., Future]] = {}
        self._task_timeout = task_timeout

    def _threads(self, workers: int) -> Any:
        return self._parsl.ThreadPoolExecutor(label="threads", max_threads=workers)

    def _htex(self, workers: int) -> Any:
        provider = importlib.import_module("parsl.providers").LocalProvider
        return self._parsl.HighThroughputExecutor(
            label="htex",
            max_workers_per_node=workers,
            address="127.0.0.1",
            encrypted=False,
            worker_logdir_root=self._folder.name,
            provider=provider(init_blocks=1, max_blocks=1),
        )

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        app = self._apps.get(function)
        if app is None:
            seconds = self._task_timeout
            called = function if seconds is None else _limited(function, seconds)
            app = self._parsl.python_app(called, data_flow_kernel=self._kernel)
            self._apps[function] = app
        return app(*args, **kwargs)

    def shutdown(self) -> None:
        self._kernel.cleanup()
        self._folder.cleanup()


def _limited(function: Callable[..., Any], seconds: float) -> Callable[..., Any]:
    """A function with the parameter by which Parsl knows for how long it may run."""

    def limited(*args: Any, walltime: float = seconds, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return limited


def _put_first(variable: str, path: str) -> None:
    paths = [path, *os.environ.get(variable, "").split(os.pathsep)]
    os.environ[variable] = os.pathsep.join(dict.fromkeys(one for one in paths if one))


def _scratch() -> TemporaryDirectory[str]:
    """A folder for logs and sockets: short, as the paths of these are limited."""
    return TemporaryDirectory(prefix="gb-", ignore_cleanup_errors=True)
