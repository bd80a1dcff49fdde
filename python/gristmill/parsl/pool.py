"""``concurrent.futures.Executor`` over a kernel."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, Any

from gristmill.parsl.apps import PythonApp

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from gristmill.parsl.config import Config
    from gristmill.parsl.kernel import DataFlowKernel


class ParslPoolExecutor(Executor):
    """Runs calls as apps.

    :param config: loads a kernel of its own, which ends with the executor.
    :param dfk: uses this kernel; it outlives the executor. Exactly one of the two is needed.
    :param executors: ``"all"``, or labels of executors that may run the calls.
    """

    def __init__(
        self,
        config: Config | None = None,
        dfk: DataFlowKernel | None = None,
        executors: Sequence[str] | str = "all",
    ) -> None:
        if (config is None) == (dfk is None):
            raise ValueError("Must specify one of config or dfk, and not both")
        self._config = config
        self._kernel = dfk
        self._executors = executors
        self._apps: dict[Callable[..., Any], PythonApp] = {}
        if config is not None:
            from gristmill.parsl.kernel import DataFlowKernel

            self._kernel = DataFlowKernel(config)

    @property
    def app_count(self) -> int:
        """How many functions were made apps."""
        return len(self._apps)

    def get_app(self, fn: Callable[..., Any]) -> PythonApp:
        """The app of a function; the function itself if it is one."""
        if isinstance(fn, PythonApp):
            return fn
        if fn not in self._apps:
            self._apps[fn] = PythonApp(fn, data_flow_kernel=self._kernel, executors=self._executors)
        return self._apps[fn]

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submits a call; gives its future. Raises ``RuntimeError`` after ``shutdown``."""
        if self._kernel is None:
            raise RuntimeError("Executor has been shut down.")
        future: Future[Any] = self.get_app(fn)(*args, **kwargs)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Takes no more calls; a kernel of its own is cleaned up once its tasks are final, if ``wait`` is true."""
        kernel, self._kernel = self._kernel, None
        if kernel is None:
            return
        if cancel_futures:
            for task in list(kernel.tasks.values()):
                task.app_fu.cancel(running=False)
        if self._config is not None:
            if wait:
                kernel.wait_for_current_tasks()
            kernel.cleanup()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        self.shutdown(wait=exc_type is None)
