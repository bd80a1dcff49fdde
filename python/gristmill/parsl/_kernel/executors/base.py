"""The interface of an executor, the same for ours and Parsl's."""

from __future__ import annotations

import importlib
import os
import sys
from abc import ABCMeta, abstractmethod
from typing import TYPE_CHECKING

from gristmill import _forked, _options
from gristmill.parsl._kernel.representation import RepresentationMixin

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future
    from types import TracebackType
    from typing import Any, Self


class ParslExecutor(RepresentationMixin, metaclass=ABCMeta):
    """The base of every executor: it runs tasks that are ready to run.

    An executor has a ``label``, which is unique within a configuration. It may have ``storage_access``, the staging
    providers for its files, and ``working_dir``, the folder that files are staged into. Before the kernel calls
    ``start``, it sets ``run_id``, ``run_dir``, ``log_config`` and, with monitoring, ``monitoring_messages`` and
    ``monitoring_receiver``.

    Parsl's own kernel accepts these executors as well: if Parsl is loaded when an executor is made, its class is
    registered as a subclass of ``parsl.executors.base.ParslExecutor``.
    """

    label: str = "undefined"
    storage_access: list[Any] | None = None
    working_dir: str | None = None
    run_dir: str = "."
    run_id: str | None = None
    #: The process, by its generation, in which this executor has been started and not ended.
    _running_in: int | None = None

    def __new__(cls, *_arguments: Any, **_named: Any) -> Self:
        """Registers the class with Parsl, if Parsl is loaded, before any code checks the type of the executor."""
        _register_with_parsl(cls)
        return super().__new__(cls)

    def __init__(
        self,
        *,
        monitoring_messages: Any = None,
        run_dir: str = ".",
        run_id: str | None = None,
    ) -> None:
        self.monitoring_messages = monitoring_messages
        self.monitoring_receiver: Any = None
        self.remote_monitoring_radio: Any = None
        self.run_dir = os.path.abspath(run_dir)
        self.run_id = run_id
        self.log_config: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.shutdown()

    def _refuse_second_kernel(self) -> None:
        """Raises ``ConfigurationError`` while a kernel of this process uses the executor."""
        if self._running_in == _forked.process_generation():
            from gristmill.parsl._kernel.errors import ConfigurationError

            raise ConfigurationError(
                f"the executor {self.label!r} belongs to a kernel that has not ended: make an executor for each "
                "kernel, or end that kernel first"
            )

    def start(self) -> None:
        """Prepares the executor to take tasks. The kernel calls this once."""
        return

    @abstractmethod
    def submit(
        self,
        func: Callable[..., Any],
        /,
        resource_specification: dict[str, Any],
        *args: Any,
        **kwargs: Any,
    ) -> Future[Any]:
        """Schedules ``func(*args, **kwargs)`` and returns the future of its result.

        Raises ``InvalidResourceSpecification`` for keys or values that the executor cannot use.
        """

    @abstractmethod
    def shutdown(self) -> None:
        """Ends the executor. Overriding methods must call this one, which ends the receiver of monitoring messages."""
        if self.monitoring_receiver is not None:
            self.monitoring_receiver.shutdown()

    def monitor_resources(self) -> bool:
        """Returns whether a task has its own process, so that its resource use can be told from that of other tasks."""
        return True


def check_files(storage_access: object, working_dir: object) -> None:
    """Checks an executor's arguments about files. Raises ``TypeError`` and ``ValueError``."""
    if storage_access is not None and not isinstance(storage_access, (list, tuple)):
        given = _options.shown(storage_access)
        raise TypeError(f"storage_access must be a list of staging providers, not {given}")
    if working_dir is not None:
        _options.path("working_dir", working_dir)


def _register_with_parsl(executor: type[ParslExecutor]) -> None:
    """Registers the class with Parsl's abstract base class, so that Parsl's type checks accept it.

    Registration, unlike inheritance, works without Parsl.
    """
    counterpart = getattr(sys.modules.get("parsl.executors.base"), "ParslExecutor", None)
    if isinstance(counterpart, ABCMeta) and not issubclass(executor, counterpart):
        counterpart.register(executor)


def radio_of_parsl(module: str, name: str) -> Any:
    """Returns a new radio of Parsl's monitoring, or ``None`` in a program that has not loaded Parsl."""
    if "parsl.executors.base" not in sys.modules:
        return None
    return getattr(importlib.import_module(f"parsl.monitoring.radios.{module}"), name)()
