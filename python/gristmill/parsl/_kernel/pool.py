"""A ``concurrent.futures.Executor`` on top of a kernel."""

from __future__ import annotations

from collections import OrderedDict
from concurrent.futures import Executor, Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from gristmill.parsl._kernel.apps import PythonApp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import TracebackType

    from gristmill.parsl._kernel.config import Config
    from gristmill.parsl._kernel.kernel import DataFlowKernel


#: Functions whose apps are kept, with what they captured. The least recently used one is forgotten, and is made an app
#: again at its next call.
_APPS_MAX = 64


class ParslPoolExecutor(Executor):
    """An executor that runs calls as apps.

    :param config: makes a kernel that ends with the executor.
    :param dfk: uses this kernel, which outlives the executor. Exactly one of the two is needed.
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
        #: By their last use, the latest one last.
        self._apps: OrderedDict[Callable[..., Any], PythonApp] = OrderedDict()
        self._app_count = 0
        if config is not None:
            from gristmill.parsl._kernel.kernel import DataFlowKernel

            self._kernel = DataFlowKernel(config)

    @property
    def app_count(self) -> int:
        """The number of functions that were made apps."""
        return self._app_count

    def get_app(self, fn: Callable[..., Any]) -> PythonApp:
        """Returns the app of a function, or the argument if it is an app already."""
        if isinstance(fn, PythonApp):
            return fn
        app = self._apps.get(fn)
        if app is None:
            app = PythonApp(fn, data_flow_kernel=self._kernel, executors=self._executors)
            self._apps[fn] = app
            self._app_count += 1
            if len(self._apps) > _APPS_MAX:
                self._apps.popitem(last=False)
        else:
            # Another thread may have forgotten the function meanwhile.
            with suppress(KeyError):
                self._apps.move_to_end(fn)
        return app

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submits a call and returns its future. Raises ``RuntimeError`` after ``shutdown``."""
        if self._kernel is None:
            raise RuntimeError("Executor has been shut down.")
        future: Future[Any] = self.get_app(fn)(*args, **kwargs)
        return future

    def map(
        self,
        fn: Callable[..., Any],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
        buffersize: int | None = None,
    ) -> Iterator[Any]:
        """Returns the results of calls in their order. ``chunksize`` and ``buffersize`` are accepted and not used."""
        return super().map(fn, *iterables, timeout=timeout)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Takes no more calls, and cleans up a kernel that this executor made.

        :param wait: whether the cleanup first waits until all tasks are final.
        :param cancel_futures: cancels the tasks that have not started.
        """
        kernel, self._kernel = self._kernel, None
        if kernel is None:
            return
        if cancel_futures:
            for task in list(kernel.tasks.values()):
                # A task whose future is gone was final.
                if (future := task.app_fu) is not None:
                    future.cancel(running=False)
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
