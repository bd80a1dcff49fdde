"""Kernels of Parsl programs, Parsl's and Gristmill's, each over one executor; plug-ins build on them."""

from __future__ import annotations

import importlib
import logging
import os
import sys
from collections.abc import Callable
from functools import partial
from operator import methodcaller
from typing import Any, Literal

from gristmill_bench.executors.bare import Bare
from gristmill_bench.executors.base import put_first, scratch, wait_for_nodes, workers_of_each
from gristmill_bench.executors.ours import wait_for_agents
from gristmill_bench.interfaces import Future

#: The kernel's project.
Surface = Literal["parsl", "gristmill"]
#: The packages with Parsl's names.
_PACKAGES: dict[Surface, str] = {"parsl": "parsl", "gristmill": "gristmill.parsl"}
#: Queues of tasks: one for all workers, or one for each.
Queues = Literal["one", "each"]
#: True if the kernel writes its log; with ``"nowhere"`` no process of HTEX writes any log either.
Logs = bool | Literal["nowhere"]
#: Cores that HTEX counts for a worker: so few that they do not limit the number of workers, but not zero.
_CORES_PER_WORKER = 1e-3


def threads(workers: int) -> Any:
    """Makes Parsl's executor in threads of the program."""
    executors = importlib.import_module("parsl.executors")
    made = executors.ThreadPoolExecutor(label="threads", max_threads=workers)
    end = made.shutdown

    def cancel_and_end() -> None:
        """Cancels the tasks of a failed run that have not begun, and ends; Parsl itself waits for them."""
        made.executor.shutdown(wait=True, cancel_futures=True)
        end()

    made.shutdown = cancel_and_end
    return made


def direct(workers: int, queues: Queues) -> Any:
    """Makes the executor whose processes get tasks directly."""
    return importlib.import_module("gristmill_bench.executors.direct").DirectExecutor(
        workers, queues
    )


def htex(workers: int, folder: str, **others: Any) -> Any:
    """Makes Parsl's executor in processes of one local block, with its defaults but without encryption.

    :param folder: folder of its logs.
    :param others: further arguments, or replacements of these.
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
    """Starts a kernel over HTEX.

    :param nodes: number of blocks, for all of which it waits; 0 means one block, for which it does not wait.
    """
    each, blocks = workers_of_each(workers, nodes), nodes or 1

    def make(folder: str) -> Any:
        local = importlib.import_module("parsl.providers").LocalProvider
        return htex(each, folder, provider=local(init_blocks=blocks, max_blocks=blocks))

    return with_nodes(Kernel(surface, make, logs, walltime), nodes, _managers_are_there)


def with_nodes(kernel: Kernel, nodes: int, are_there: Callable[[Kernel, int], None]) -> Kernel:
    """Waits for the nodes of a kernel, if it has some, and returns the kernel."""
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
    """Waits until that many nodes of Gristmill's executor, under a kernel, have their workers."""
    engine = kernel.kernel.executors["gristmill"]._engine
    wait_for_agents(engine, kernel.submit, nodes)


def ours(workers: int, **others: Any) -> Any:
    """Makes Gristmill's engine, as an executor of either kernel."""
    parsl = importlib.import_module("gristmill.parsl")
    made = parsl.GristmillExecutor(max_workers=workers, **others)
    # As HTEX, and unlike the engine by default, it does not run the waiting tasks of a failed run.
    made.shutdown = partial(made.shutdown, cancel_futures=True)
    return made


class Kernel:
    """A kernel with one executor: it remembers and scales nothing, and writes only to a folder of its own.

    :param surface: the kernel's project.
    :param make_executor: makes the executor, with the folder as its argument.
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
        # Parsl's workers are commands in the folder of the interpreter.
        put_first("PATH", os.path.dirname(sys.executable))
        self._parsl = importlib.import_module(_PACKAGES[surface])
        self._folder = scratch()
        before = _log_files()
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
        #: Open files of the kernel's log: Parsl's removes them from the logger and leaves them open.
        self._log_files = _log_files() - before
        self._walltime = walltime
        self._apps: dict[Callable[..., Any], Callable[..., Future]] = {}

    def app(self, function: Callable[..., Any]) -> Callable[..., Future]:
        """Returns the app of a function, which is made once."""
        app = self._apps.get(function)
        if app is None:
            seconds = self._walltime
            called = function if seconds is None else _limited(function, seconds)
            app = self._parsl.python_app(called, data_flow_kernel=self.kernel)
            self._apps[function] = app
        return app

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        """Calls the app of a function."""
        return self.app(function)(*args, **kwargs)

    def shutdown(self) -> None:
        """Ends kernel and executor."""
        if not self.kernel.cleanup_called:
            self.kernel.cleanup()
        for file in self._log_files:
            file.close()
        self._folder.cleanup()


class BareKernel(Bare):
    """A kernel's own apps and futures."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        #: The kernel itself.
        self.kernel = kernel.kernel
        app_of = kernel.app
        apps: dict[Callable[..., Any], Callable[..., Any]] = {}

        def submit(function: Callable[..., Any], *arguments: Any) -> Any:
            app = apps.get(function)
            if app is None:
                app = apps[function] = app_of(function)
            return app(*arguments)

        self.submit = submit
        self.result = methodcaller("result")

    def close(self) -> None:
        """Ends kernel and executor."""
        self._kernel.shutdown()


def _log_files() -> set[logging.FileHandler]:
    """Returns the files that Parsl's logger writes to."""
    handlers = logging.getLogger("parsl").handlers
    return {one for one in handlers if isinstance(one, logging.FileHandler)}


def _nothing() -> Any:
    """Returns Parsl's configuration of logs that keeps all of its processes from writing any."""
    return importlib.import_module("parsl.logconfigs.noop").NoopLogging()


def _limited(function: Callable[..., Any], seconds: float) -> Callable[..., Any]:
    """Returns the function with the parameter by which Parsl limits its time."""

    def limited(*args: Any, walltime: float = seconds, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return limited
