"""The placement of the workers of ``GristmillExecutor`` that are not on this machine."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from gristmill import _native
from gristmill._nodes import accelerators

if TYPE_CHECKING:
    from gristmill._nodes.network import Network
    from gristmill._nodes.placement import Placement
    from gristmill._nodes.provider import BlockOptions
    from gristmill.parsl._kernel.executors.engine import GristmillExecutor

#: Defaults of the configuration of Parsl's own kernel.
_STRATEGY, _PERIOD_S, _MAX_IDLETIME_S = "simple", 5.0, 120.0
#: The module of the wrapper around every function that Parsl's own kernel submits.
_WRAPPER = "parsl.app.errors"


def placement_of(executor: GristmillExecutor) -> Placement | None:
    """Returns the placement of an executor, or ``None`` if its workers are on this machine.

    Raises ``ConfigurationError`` for a provider next to another placement, and for fields that would have no effect.
    """
    _refuse_unread_fields(executor)
    provider = executor.provider
    if provider is None or _is_this_machine(provider):
        return executor.nodes
    from gristmill._nodes.provider import ProviderNodes, own_provider

    provider = own_provider(provider)
    if executor.launcher is not None:
        provider.launcher = executor.launcher
    placement = ProviderNodes(provider, _options(executor))
    placement.on_change = executor.send_monitoring_info
    return placement


def _refuse_unread_fields(executor: GristmillExecutor) -> None:
    """Raises ``ConfigurationError`` for fields that were set and would have no effect."""
    why = None
    has_nodes, label = executor.nodes is not None, executor.label
    if has_nodes and executor.provider is not None:
        why = f"{label} has a provider and other nodes: give only one of the two"
    elif executor.launcher is not None and executor.provider is None:
        why = f"{label} has a launcher and no provider: a launcher starts agents only in jobs of a provider"
    elif has_nodes and executor.cpu_affinity != "none":
        why = f"{label} has nodes, whose placement determines how workers are bound: give cpu_affinity to the placement"
    elif has_nodes and (executor.port or executor.group):
        why = f"{label} has nodes, whose placement determines where they join: give port and group to the placement"
    elif has_nodes and executor.available_accelerators:
        why = f"{label} has nodes, which report their GPUs themselves: leave available_accelerators out"
    if why is not None:
        from gristmill.parsl._kernel.errors import ConfigurationError

        raise ConfigurationError(why)


def _is_this_machine(provider: object) -> bool:
    """Returns whether a provider is our substitute for Parsl's local provider, which starts nothing."""
    from gristmill.parsl._kernel.providers import LocalProvider

    return isinstance(provider, LocalProvider)


def network_of(executor: GristmillExecutor) -> Network:
    """Returns where nodes find an executor's program. Raises as ``on.Network`` does."""
    from gristmill._nodes.network import Network

    return Network(
        address=executor.address,
        interface=executor.interface,
        port=executor.port,
        group=executor.group,
    )


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
        strategy=strategy,
        strategy_period=_PERIOD_S if config is None else config.strategy_period,
        max_idletime=max_idletime,
        block_error_handler=executor.block_error_handler,
        network=network_of(executor),
        run_dir=executor.run_dir,
        available_accelerators=executor.available_accelerators,
        submissions=executor.submissions,
        is_folder_shared=executor.is_folder_shared,
        python=executor.python,
    )


def guess_workers(executor: GristmillExecutor) -> float:
    """Returns the expected number of workers on a node."""
    if executor.provider is None:
        return workers_here(executor) or 1
    from gristmill._nodes.provider import ProviderNodes

    return ProviderNodes(executor.provider, _options(executor)).workers_per_node


def workers_here(executor: GristmillExecutor) -> int | None:
    """Returns the number of workers on this machine, or ``None`` for as many as there are CPUs."""
    pinned = accelerators.count(executor.available_accelerators)
    if not pinned:
        return executor.max_workers
    return min(executor.max_workers or _native.cpu_count(), pinned)


def preload_of_parsl(executor: GristmillExecutor) -> tuple[str, ...]:
    """Returns the modules that workers need to run functions of Parsl's own kernel.

    They are returned only for an engine that starts before it sees such a function.
    """
    is_theirs = executor.config is None and "parsl.dataflow.dflow" in sys.modules
    return (_WRAPPER,) if is_theirs and executor.provider is not None else ()
