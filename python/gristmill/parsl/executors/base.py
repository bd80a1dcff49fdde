"""What a kernel wants of an executor, ours and Parsl's alike."""

from __future__ import annotations

import importlib
import os
import sys
from abc import ABCMeta, abstractmethod
from typing import TYPE_CHECKING

from gristmill.parsl.representation import RepresentationMixin

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future
    from types import TracebackType
    from typing import Any, Self


class ParslExecutor(RepresentationMixin, metaclass=ABCMeta):
    """Runs tasks that are ready to run; the base of every executor.

    An executor has a ``label``, which is unique within a configuration, and may have ``storage_access``, the staging
    providers for its files, and ``working_dir``, the folder that files are staged into. The kernel sets ``run_id``,
    ``run_dir``, ``log_config`` and, where there is monitoring, ``monitoring_messages`` and ``monitoring_receiver``
    before it calls ``start``.

    Parsl's own kernel takes these executors as well: where Parsl is loaded when one is made, its class is registered as
    a subclass of ``parsl.executors.base.ParslExecutor``.
    """

    label: str = "undefined"
    storage_access: list[Any] | None = None
    working_dir: str | None = None

    def __new__(cls, *_arguments: Any, **_named: Any) -> Self:
        """Makes the executor known to Parsl, where that is loaded, before anybody checks its type."""
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

    def start(self) -> None:
        """Makes ready to take tasks; called once, by the kernel."""
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
        """Runs ``func(*args, **kwargs)`` some time; gives the future of what it returns.

        Raises ``InvalidResourceSpecification`` for keys or values that the executor cannot use.
        """

    @abstractmethod
    def shutdown(self) -> None:
        """Ends the executor; overriding methods call this one too, which ends the receiver of monitoring messages."""
        if self.monitoring_receiver is not None:
            self.monitoring_receiver.shutdown()

    def monitor_resources(self) -> bool:
        """Whether a task has a process of its own, whose use of resources can be told from others'."""
        return True


def _register_with_parsl(executor: type[ParslExecutor]) -> None:
    """Lets Parsl's checks of types take the class: by registration, so that Parsl need not be installed."""
    counterpart = getattr(sys.modules.get("parsl.executors.base"), "ParslExecutor", None)
    if isinstance(counterpart, ABCMeta) and not issubclass(executor, counterpart):
        counterpart.register(executor)


def radio_of_parsl(module: str, name: str) -> Any:
    """A new radio of Parsl's monitoring, or ``None`` in a program that has not loaded Parsl."""
    if "parsl.executors.base" not in sys.modules:
        return None
    return getattr(importlib.import_module(f"parsl.monitoring.radios.{module}"), name)()
