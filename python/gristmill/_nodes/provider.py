"""Agents in the jobs of a batch system, through one of Parsl's providers and launchers.

Only the interface of these objects is used. Parsl must be installed for them, but none of its kernel runs. The engine
scales by itself, also under Parsl's kernel.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import importlib
import math
import os
import shlex

from gristmill import _options
from gristmill._nodes import accelerators, walltime
from gristmill._nodes.affinity import checked
from gristmill._nodes.block_status import handler_of
from gristmill._nodes.blocks import Blocks, name_of_node
from gristmill._nodes.command import HOST, AgentCommand
from gristmill._nodes.groups import same_group
from gristmill._nodes.key_input import KEY_VARIABLE, write_key
from gristmill._nodes.network import Network, network_of
from gristmill._nodes.placement import CopiedPlacement
from gristmill._nodes.scaler import Scaler
from gristmill._nodes.scaling import Limits, Rate, Strategy
from gristmill._nodes.shell import ExportingLauncher, puts_words_before

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Self

    from gristmill._nodes.block_status import ErrorHandler
    from gristmill._nodes.scaler import BlockCallback

# Providers fork from a thread. This module has hooks around forks, so no other thread may load it during a fork: the
# hook after the fork would release a lock that the hook before it has not taken.
importlib.import_module("concurrent.futures.thread")

#: The assumed number of workers of a node if nothing tells it, as in Parsl.
_WORKERS_GUESS = 1


@dataclasses.dataclass
class BlockOptions:
    """The options for a provider's blocks; see ``gristmill.on.provider``."""

    label: str = "gristmill"
    max_workers_per_node: float | None = None
    cores_per_worker: float = 1.0
    mem_per_worker: float | None = None
    cpu_affinity: str = "none"
    strategy: str | None = "simple"
    strategy_period: float = 5.0
    max_idletime: float = 120.0
    block_error_handler: bool | ErrorHandler = True
    submissions: tuple[int, float] = (10, 10.0)
    network: Network | None = None
    python: str | None = None
    run_dir: str = "runinfo"
    is_folder_shared: bool = True
    available_accelerators: int | Sequence[str] = ()


def _checked(options: BlockOptions) -> BlockOptions:
    """Checks the options that are numbers, texts and flags, and returns them."""
    per_node, memory = options.max_workers_per_node, options.mem_per_worker
    if per_node is not None and not _options.is_infinite(per_node):
        _options.number("max_workers_per_node", per_node, 1, _options.SHORT_MAX)
    if memory is not None:
        memory = _options.number("mem_per_worker", memory, 0, _options.LONG_MAX)
    _options.number("cores_per_worker", options.cores_per_worker, 0.001, _options.SHORT_MAX)
    _options.seconds("strategy_period", options.strategy_period, is_positive=True)
    if not _options.is_infinite(options.max_idletime):
        _options.seconds("max_idletime", options.max_idletime)
    _options.text("label", options.label)
    _options.optional_text("strategy", options.strategy)
    _options.path("run_dir", options.run_dir)
    _options.optional_text("python", options.python)
    _options.flag("is_folder_shared", options.is_folder_shared)
    handler = options.block_error_handler
    if not isinstance(handler, bool) and not callable(handler):
        given = _options.shown(handler)
        raise TypeError(f"block_error_handler must be True, False or a function, not {given}")
    try:
        count, seconds = options.submissions
    except (TypeError, ValueError):
        given = _options.shown(options.submissions)
        raise TypeError(
            f"submissions must be a number of jobs and of seconds, as (10, 10.0), not {given}"
        ) from None
    _options.count("submissions", count)
    _options.seconds("submissions", seconds)
    return options


def own_provider(provider: Any) -> Any:
    """Returns a copy of a provider with a table of jobs of its own: each placement has its own jobs and values."""
    own = copy.copy(provider)
    if isinstance(jobs := getattr(own, "resources", None), dict):
        own.resources = dict(jobs)
    return own


def _export(key: str) -> str:
    return f"export {KEY_VARIABLE}={key}"


class ProviderNodes(CopiedPlacement):
    """A placement whose blocks of nodes come and go with the tasks."""

    #: A function that is called with the blocks whose state has changed.
    on_change: BlockCallback | None = None

    def __init__(self, provider: Any, options: BlockOptions) -> None:
        for name in ("submit", "status", "cancel"):
            if not hasattr(provider, name):
                raise TypeError(
                    f"{_options.shown(provider)} is not a provider of Parsl: it has no {name}"
                )
        self.provider = provider
        options = self.options = _checked(options)
        self.network = network_of(options.network)
        self.listen = self.network.listen
        self.group = same_group(self.network.group)
        workers = options.max_workers_per_node
        # Parsl's configurations say infinity for no limit.
        self._workers = None if workers is None or math.isinf(workers) else int(workers)
        self._accelerators = accelerators.to_text(options.available_accelerators)
        checked(options.cpu_affinity)
        self._walltime_s = walltime.of_provider(provider)
        self._make_rules()  # reports invalid values now instead of at the start
        self._forget_run()

    def _forget_run(self) -> None:
        """Forgets the blocks."""
        self._key_file = ""
        self._is_key_in_command = False
        self.scaler: Scaler | None = None

    def _copy(self) -> Self:
        other = super()._copy()
        other.provider = own_provider(self.provider)
        return other

    def _make_rules(self) -> tuple[Strategy, Rate, ErrorHandler]:
        options = self.options
        strategy = Strategy(options.strategy, self._limits(), options.max_idletime)
        return strategy, Rate(*options.submissions), handler_of(options.block_error_handler)

    @property
    def workers_per_node(self) -> float:
        """The expected number of workers of a node, from what the provider says of its nodes."""
        options = self.options
        cores = getattr(self.provider, "cores_per_node", None)
        memory = getattr(self.provider, "mem_per_node", None)
        guesses: list[float] = []
        if self._workers is not None:
            guesses.append(self._workers)
        if cores is not None:
            guesses.append(cores // options.cores_per_worker)
        if memory is not None and options.mem_per_worker is not None:
            guesses.append(memory // options.mem_per_worker)
        if self._accelerators is not None:
            guesses.append(accelerators.count(options.available_accelerators))
        return max(1, min(guesses, default=_WORKERS_GUESS))

    def _limits(self) -> Limits:
        provider = self.provider
        return Limits(
            init_blocks=provider.init_blocks,
            min_blocks=provider.min_blocks,
            max_blocks=provider.max_blocks,
            parallelism=provider.parallelism,
            workers_per_block=self.workers_per_node * provider.nodes_per_block,
        )

    def start(self, address: str | None, key: str) -> None:
        """Submits the first blocks and starts to scale."""
        options = self.options
        folder = self._make_folder()
        if options.is_folder_shared:
            self._key_file = os.path.join(folder, f"{options.label}-{os.urandom(4).hex()}.key")
            write_key(self._key_file, key)
        self._hand_over(key)
        join = self.network.addresses(address)
        blocks = Blocks(
            self.provider, options.label, lambda number: self._command(number, join, key)
        )
        self.scaler = Scaler(
            blocks,
            self.provider,
            *self._make_rules(),
            self.client,
            options.strategy_period,
            self.on_change,
        )
        self.scaler.start()

    def _hand_over(self, key: str) -> None:
        """Determines how agents get the key if they do not see its file: as a variable that the job's script exports.

        The export is a part of the command, so that it reaches all nodes. Only where a launcher puts words before the
        command, the export is before them, and the words are to pass the variable on.
        """
        launcher = getattr(self.provider, "launcher", None)
        if isinstance(launcher, ExportingLauncher):  # of the last run
            launcher = self.provider.launcher = launcher.launcher
        is_before = not self._key_file and launcher is not None and puts_words_before(launcher)
        self._is_key_in_command = not self._key_file and not is_before
        if is_before:
            self.provider.launcher = ExportingLauncher(launcher, _export(key))

    def _make_folder(self) -> str:
        """Creates the folder for the provider's scripts, unless a kernel has made it. Returns the run's folder."""
        scripts = getattr(self.provider, "script_dir", None)
        if scripts is None:
            from gristmill._nodes.run_folders import make_run_folder

            scripts = os.path.join(make_run_folder(self.options.run_dir), "submit_scripts")
            self.provider.script_dir = scripts
        os.makedirs(scripts, mode=0o700, exist_ok=True)
        return os.path.dirname(os.path.abspath(scripts))

    def _command(self, number: str, join: list[str], key: str) -> str:
        """Returns the command for each node of a block."""
        options = self.options
        agent = AgentCommand(
            join,
            self._key_file or None,
            options.python,
            name=name_of_node(number, HOST),
            workers=self._workers,
            group=self.group,
            cpu_affinity=options.cpu_affinity,
            more=[
                ("cores-per-worker", options.cores_per_worker),
                ("memory-per-worker", options.mem_per_worker),
                ("accelerators", self._accelerators),
                ("walltime", self._walltime_s),
            ],
        )
        command = shlex.join(agent.arguments())
        return f"{_export(key)}\n{command}" if self._is_key_in_command else command

    def end(self) -> None:
        """Cancels all blocks."""
        if self.scaler is not None:
            self.scaler.end()
        if self._key_file:
            with contextlib.suppress(OSError):
                os.unlink(self._key_file)

    def failures(self) -> list[tuple[str, str]]:
        """Returns the blocks without a node, what is known of them, and what the batch system does not answer."""
        if self.scaler is None:
            return []
        blocks = self.scaler.blocks
        found = [(f"block {block.number}", text) for block, text in blocks.without_nodes()]
        waiting = blocks.calls.waiting() or (blocks.trouble and f"it {blocks.trouble}")
        return [*found, ("the batch system", waiting)] if waiting else found
