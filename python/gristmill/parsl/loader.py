"""The kernel that apps use which were not bound to one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gristmill.parsl.config import Config
    from gristmill.parsl.kernel import DataFlowKernel


class DataFlowKernelLoader:
    """Holds the loaded kernel; ``load``, ``dfk``, ``clear`` and ``wait_for_current_tasks`` of the package are these."""

    _dfk: DataFlowKernel | None = None

    @classmethod
    def clear(cls) -> None:
        """Forgets the loaded kernel without cleaning it up."""
        cls._dfk = None

    @classmethod
    def load(cls, config: Config | None = None) -> DataFlowKernel:
        """Makes a kernel and makes it the loaded one; without a configuration it runs tasks on Gristmill's engine.

        Raises ``ConfigurationError`` while one is loaded.
        """
        from gristmill.parsl.config import Config
        from gristmill.parsl.kernel import DataFlowKernel

        if cls._dfk is not None:
            from gristmill.parsl.errors import ConfigurationError

            raise ConfigurationError("Config has already been loaded")
        cls._dfk = DataFlowKernel(config if config is not None else Config())
        return cls._dfk

    @classmethod
    def wait_for_current_tasks(cls) -> None:
        """Waits until every task that exists now is final."""
        cls.dfk().wait_for_current_tasks()

    @classmethod
    def dfk(cls) -> DataFlowKernel:
        """The loaded kernel. Raises ``NoDataFlowKernelError`` when there is none."""
        if cls._dfk is None:
            from gristmill.parsl.errors import NoDataFlowKernelError

            raise NoDataFlowKernelError("Must first load config")
        return cls._dfk


clear = DataFlowKernelLoader.clear
load = DataFlowKernelLoader.load
dfk = DataFlowKernelLoader.dfk
wait_for_current_tasks = DataFlowKernelLoader.wait_for_current_tasks
