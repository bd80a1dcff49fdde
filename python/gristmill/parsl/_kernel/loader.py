"""The kernel of apps that are not bound to a kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gristmill.parsl._kernel.config import Config
    from gristmill.parsl._kernel.kernel import DataFlowKernel


class DataFlowKernelLoader:
    """The holder of the loaded kernel. The package exports its class methods as ``load``, ``dfk`` and so on."""

    _dfk: DataFlowKernel | None = None

    @classmethod
    def clear(cls) -> None:
        """Forgets the loaded kernel without cleaning it up."""
        cls._dfk = None

    @classmethod
    def load(cls, config: Config | None = None) -> DataFlowKernel:
        """Makes a kernel and loads it. Without a configuration it runs tasks on Gristmill's engine.

        Raises ``ConfigurationError`` while a kernel is loaded, and ``TypeError`` for an object that is no
        configuration.
        """
        from gristmill.parsl._kernel.config import Config
        from gristmill.parsl._kernel.kernel import DataFlowKernel

        if cls._dfk is not None:
            from gristmill.parsl._kernel.errors import ConfigurationError

            raise ConfigurationError("Config has already been loaded")
        cls._dfk = DataFlowKernel(config if config is not None else Config())
        return cls._dfk

    @classmethod
    def wait_for_current_tasks(cls) -> None:
        """Waits until every task that exists now is final."""
        cls.dfk().wait_for_current_tasks()

    @classmethod
    def dfk(cls) -> DataFlowKernel:
        """Returns the loaded kernel. Raises ``NoDataFlowKernelError`` if there is none."""
        if cls._dfk is None:
            from gristmill.parsl._kernel.errors import NoDataFlowKernelError

            raise NoDataFlowKernelError("Must first load config")
        return cls._dfk


clear = DataFlowKernelLoader.clear
load = DataFlowKernelLoader.load
dfk = DataFlowKernelLoader.dfk
wait_for_current_tasks = DataFlowKernelLoader.wait_for_current_tasks
