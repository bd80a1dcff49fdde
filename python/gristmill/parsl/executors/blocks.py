"""Where the workers of ``GristmillExecutor`` are, if not on this machine."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from gristmill import _native
from gristmill._nodes import accelerators

if TYPE_CHECKING:
    from gristmill._nodes.placement import Placement
    from gristmill._nodes.provider import BlockOptions
    from gristmill.parsl.executors.engine import GristmillExecutor

#: What Parsl's own kernel has in its configuration unless told otherwise.
_STRATEGY, _PERIOD_S, _MAX_IDLETIME_S = "simple", 5.0, 120.0
#: What wraps every function that Parsl's own kernel sends.
_WRAPPER = "parsl.app.errors"


def placement_of(executor: GristmillExecutor) -> Placement | None:
    """The placement that an executor is to have; ``None``: its workers are on this machine.

    Raises ``ConfigurationError`` for a provider beside another placement, and for fields that nobody would look at.
    """
    _refuse_what_nobody_reads(executor)
    provider = executor.provider
    if provider is None or _is_this_machine(provider):
        return executor.nodes
    from gristmill._nodes.provider import ProviderNodes

    if executor.launcher is not None:
        provider.launcher = executor.launcher
    placement = ProviderNodes(provider, _options(executor))
    placement.told = executor.send_monitoring_info
    return placement


def _refuse_what_nobody_reads(executor: GristmillExecutor) -> None:
    """Raises ``ConfigurationError`` for what would change nothing although somebody has asked for it."""
    why = None
    has_nodes, label = executor.nodes is not None, executor.label
    if has_nodes and executor.provider is not None:
        why = f"{label} has a provider and other nodes: give it one of them"
    elif executor.launcher is not None and executor.provider is None:
        why = f"{label} has a launcher and no provider whose jobs it could start anything in"
    elif has_nodes and executor.cpu_affinity != "none":
        why = (
            f"{label} has nodes, whose placement says what binds workers: give cpu_affinity to that"
        )
    elif has_nodes and (executor.port or executor.group):
        why = (
            f"{label} has nodes, whose placement says where they join: give port and group to that"
        )
    elif has_nodes and executor.available_accelerators:
        why = f"{label} has nodes, which say themselves what GPUs they have: leave available_accelerators out"
    if why is not None:
        from gristmill.parsl.errors import ConfigurationError

        raise ConfigurationError(why)


def _is_this_machine(provider: object) -> bool:
    """Whether it is what stands for Parsl's local provider where Parsl is not installed: that starts nothing."""
    from gristmill.parsl.providers import LocalProvider

    return isinstance(provider, LocalProvider)


def _options(executor: GristmillExecutor) -> BlockOptions:
    from gristmill._nodes.provider import BlockOptions

    config = executor.config
    strategy = executor.strategy or (_STRATEGY if config is None else config.strategy)
    max_idletime = executor.max_idletime
    if max_idletime is None:
        max_idletime = _MAX_IDLETIME_S if config is None else config.max_idletime
    return BlockOptions(
        label=executor.label,
        max_workers_per_node=executor.max_workers_per_node,
        cores_per_worker=executor.cores_per_worker,
        mem_per_worker=executor.mem_per_worker,
        cpu_affinity=executor.cpu_affinity,
        port=executor.port,
        group=executor.group,
        strategy=strategy,
        strategy_period=_PERIOD_S if config is None else config.strategy_period,
        max_idletime=max_idletime,
        block_error_handler=executor.block_error_handler,
        address=executor.address,
        interface=executor.interface,
        run_dir=executor.run_dir,
        available_accelerators=executor.available_accelerators,
        submissions=executor.submissions,
        is_folder_shared=executor.is_folder_shared,
        python=executor.python,
    )


def guess_workers(executor: GristmillExecutor) -> float:
    """How many workers a node is thought to have."""
    if executor.provider is None:
        return workers_here(executor) or 1
    from gristmill._nodes.provider import ProviderNodes

    return ProviderNodes(executor.provider, _options(executor)).workers_per_node


def workers_here(executor: GristmillExecutor) -> int | None:
    """How many workers there are on this machine; ``None``: as many as cores."""
    pinned = accelerators.count(executor.available_accelerators)
    if not pinned:
        return executor.max_workers
    return min(executor.max_workers or _native.cpu_count(), pinned)


def preload_of_parsl(executor: GristmillExecutor) -> tuple[str, ...]:
    """What workers need of Parsl whose engine starts before it sees a function of Parsl's own kernel."""
    is_theirs = executor.config is None and "parsl.dataflow.dflow" in sys.modules
    return (_WRAPPER,) if is_theirs and executor.provider is not None else ()
