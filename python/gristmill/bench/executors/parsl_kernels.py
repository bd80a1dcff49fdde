"""Kernels of Parsl programs, Parsl's and ours, each over one executor: what the plug-ins stand on."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

from gristmill.bench.executors.base import put_first, scratch, wait_for_nodes, workers_of_each
from gristmill.bench.executors.ours import wait_for_agents
from gristmill.bench.interfaces import Future

#: The package that has Parsl's names: Parsl itself, or ours.
Surface = Literal["parsl", "gristmill"]
#: Whether workers share a queue of tasks.
Queues = Literal["one", "each"]
#: Whether the kernel writes its log; nowhere: nor does any process of HTEX.
Logs = bool | Literal["nowhere"]
#: HTEX has no more workers than its share of the cores, if that is not nothing.
_CORES_PER_WORKER = 1e-3


def threads(workers: int) -> Any:
    """Parsl's executor in threads of the program."""
    executors = importlib.import_module("parsl.executors")
    made = executors.ThreadPoolExecutor(label="threads", max_threads=workers)
    end = made.shutdown

    def cancel_and_end() -> None:
        """What has not begun when a run has failed is not begun: Parsl itself waits for that."""
        made.executor.shutdown(wait=True, cancel_futures=True)
        end()

    made.shutdown = cancel_and_end
    return made


def direct(workers: int, queues: Queues) -> Any:
    """Processes that tasks go to directly."""
    return importlib.import_module("gristmill.bench.executors.direct").DirectExecutor(
        workers, queues
    )


def htex(workers: int, folder: str, **others: Any) -> Any:
    """Parsl's executor in processes of one local block, with its defaults but for encryption, which is off.

    :param folder: for its logs.
    :param others: further arguments of it, or other ones.
    """
    local = importlib.import_module("parsl.providers").LocalProvider
    chosen: dict[str, Any] = {
        "address": "127.0.0.1",
        "cores_per_worker": _CORES_PER_WORKER,
        "worker_logdir_root": folder,
        "provider": local(init_blocks=1, max_blocks=1),
    } | others
    return importlib.import_module("parsl.executors").HighThroughputExecutor(
        label="htex", max_workers_per_node=workers, encrypted=False, **chosen
    )


def over_htex(
    surface: Surface, workers: int, nodes: int, logs: Logs, walltime: float | None
) -> Kernel:
    """A kernel over HTEX.

    :param nodes: blocks, all of which are waited for; if it is 0, one that is not.
    """
    each, blocks = workers_of_each(workers, nodes), nodes or 1

    def make(folder: str) -> Any:
        local = importlib.import_module("parsl.providers").LocalProvider
        return htex(each, folder, provider=local(init_blocks=blocks, max_blocks=blocks))

    return with_nodes(Kernel(surface, make, logs, walltime), nodes, _managers_are_there)


def with_nodes(kernel: Kernel, nodes: int, are_there: Callable[[Kernel, int], None]) -> Kernel:
    """A kernel whose nodes are there, if it has some."""
    try:
        if nodes:
            are_there(kernel, nodes)
    except BaseException:
        kernel.shutdown()
        raise
    return kernel


def _managers_are_there(kernel: Kernel, nodes: int) -> None:
    executor = kernel.kernel.executors["htex"]
    wait_for_nodes(nodes, lambda: len(executor.connected_managers()))


def agents_are_there(kernel: Kernel, nodes: int) -> None:
    """Waits until that many nodes of our executor, under a kernel, have their workers."""
    engine = kernel.kernel.executors["gristmill"]._engine
    wait_for_agents(engine, kernel.submit, nodes)


def ours(workers: int, **others: Any) -> Any:
    """Our engine, as an executor of either kernel."""
    executors = importlib.import_module("gristmill.parsl.executors.engine")
    made = executors.GristmillExecutor(max_workers=workers, **others)
    # As HTEX does, and not as it does by itself: a run that has failed does not run what waits.
    made.shutdown = partial(made.shutdown, cancel_futures=True)
    return made


class Kernel:
    """A kernel with one executor: nothing remembered, nothing scaled, nothing written outside of a folder of its own.

    :param surface: whose kernel.
    :param make_executor: is given the folder.
    :param logs: whether the kernel writes its log; ``"nowhere"`` is for Parsl's.
    :param walltime: seconds that each task may run.
    :param others: further fields of its configuration.
    """

    def __init__(
        self,
        surface: Surface,
        make_executor: Callable[[str], Any],
        logs: Logs = False,
        walltime: float | None = None,
        **others: Any,
    ) -> None:
        # Parsl's workers are commands beside Python.
        put_first("PATH", os.path.dirname(sys.executable))
        self._parsl = importlib.import_module(surface)
        self._folder = scratch()
        #: The kernel itself.
        self.kernel = self._parsl.DataFlowKernel(
            self._parsl.Config(
                executors=[make_executor(self._folder.name)],
                run_dir=self._folder.name,
                initialize_logging=_nothing() if logs == "nowhere" else logs,
                strategy="none",
                usage_tracking=0,
                **others,
            )
        )
        self._walltime = walltime
        self._apps: dict[Callable[..., Any], Callable[..., Future]] = {}

    def app(self, function: Callable[..., Any]) -> Callable[..., Future]:
        """The app that a function is made, once."""
        app = self._apps.get(function)
        if app is None:
            seconds = self._walltime
            called = function if seconds is None else _limited(function, seconds)
            app = self._parsl.python_app(called, data_flow_kernel=self.kernel)
            self._apps[function] = app
        return app

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        """Calls the app that the function is made."""
        return self.app(function)(*args, **kwargs)

    def shutdown(self) -> None:
        """Ends kernel and executor."""
        if not self.kernel.cleanup_called:
            self.kernel.cleanup()
        self._folder.cleanup()


def _nothing() -> Any:
    """Parsl's configuration of logs that keeps all of its processes from writing any."""
    return importlib.import_module("parsl.logconfigs.noop").NoopLogging()


def _limited(function: Callable[..., Any], seconds: float) -> Callable[..., Any]:
    """A function with the parameter by which Parsl knows for how long it may run."""

    def limited(*args: Any, walltime: float = seconds, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return limited
