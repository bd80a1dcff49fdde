"""Agents in the jobs of a batch system, through one of Parsl's providers and launchers.

Only their interface is used: Parsl has to be installed for the objects, and nothing of its kernel runs. The engine
scales by itself, under Parsl's kernel too.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
import os
import shlex

from gristmill._nodes import accelerators, walltime
from gristmill._nodes.affinity import checked
from gristmill._nodes.block_status import handler_of, in_words
from gristmill._nodes.blocks import Blocks, name_of_node
from gristmill._nodes.command import HOST, AgentCommand
from gristmill._nodes.door import Door
from gristmill._nodes.groups import same_group
from gristmill._nodes.handing import KEY_VARIABLE, write_key
from gristmill._nodes.placement import Placement
from gristmill._nodes.scaler import Scaler
from gristmill._nodes.scaling import Limits, Rate, Strategy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from gristmill._nodes.block_status import ErrorHandler
    from gristmill._nodes.scaler import Told

# Providers fork from a thread. While that goes on nobody may load this module, which has hooks around forks: the one
# after the fork would release a lock that the one before it has not taken.
importlib.import_module("concurrent.futures.thread")

#: A guess of how many workers a node has where nobody says, as in Parsl.
_WORKERS_GUESS = 1


@dataclasses.dataclass
class BlockOptions:
    """How a provider's blocks are used; see ``gristmill.on.provider``."""

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
    address: str | None = None
    interface: str | None = None
    python: str | None = None
    run_dir: str = "runinfo"
    is_folder_shared: bool = True
    available_accelerators: int | Sequence[str] = ()
    port: int = 0
    group: str | None = None


class ProviderNodes(Placement):
    """Blocks of nodes that come and go with the tasks."""

    #: Called with the blocks that have come into another state.
    told: Told | None = None

    def __init__(self, provider: Any, options: BlockOptions) -> None:
        for name in ("submit", "status", "cancel"):
            if not hasattr(provider, name):
                raise TypeError(f"{provider!r} is no provider of Parsl's: it has no {name}")
        self.provider = provider
        self.options = options
        self.door = Door(options.port, options.address, options.interface)
        self.listen = self.door.listen
        self.group = same_group(options.group)
        workers = options.max_workers_per_node
        # Infinity is what Parsl's configurations say for no limit.
        self._workers = None if workers is None or math.isinf(workers) else int(workers)
        self._accelerators = accelerators.to_text(options.available_accelerators)
        checked(options.cpu_affinity)
        self._walltime_s = walltime.of_provider(provider)
        self._make_rules()  # what they cannot be is to be known now
        self._key_file = ""
        self.scaler: Scaler | None = None

    def _make_rules(self) -> tuple[Strategy, Rate, ErrorHandler]:
        options = self.options
        strategy = Strategy(options.strategy, self._limits(), options.max_idletime)
        return strategy, Rate(*options.submissions), handler_of(options.block_error_handler)

    @property
    def workers_per_node(self) -> float:
        """How many workers a node is thought to have, from what the provider says of its nodes."""
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
        """Submits the first blocks, and begins to look after them."""
        options = self.options
        folder = self._make_folder()
        if options.is_folder_shared:
            self._key_file = os.path.join(folder, f"{options.label}-{os.urandom(4).hex()}.key")
            write_key(self._key_file, key)
        join = self.door.told(address)
        blocks = Blocks(
            self.provider, options.label, lambda number: self._command(number, join, key)
        )
        self.scaler = Scaler(
            blocks,
            self.provider,
            *self._make_rules(),
            self.client,
            options.strategy_period,
            self.told,
        )
        self.scaler.start()

    def _make_folder(self) -> str:
        """The folder of the run, in which the provider has its scripts; a kernel has made both."""
        scripts = getattr(self.provider, "script_dir", None)
        if scripts is None:
            from gristmill.parsl.run_folder import make_run_folder

            scripts = os.path.join(make_run_folder(self.options.run_dir), "submit_scripts")
            self.provider.script_dir = scripts
        os.makedirs(scripts, mode=0o700, exist_ok=True)
        return os.path.dirname(os.path.abspath(scripts))

    def _command(self, number: str, join: list[str], key: str) -> str:
        """What runs on each node of a block."""
        options = self.options
        agent = AgentCommand(
            join,
            self._key_file or None,
            options.python,
            name_of_node(number, HOST),
            self._workers,
            self.group,
            options.cpu_affinity,
            more=[
                ("cores-per-worker", options.cores_per_worker),
                ("memory-per-worker", options.mem_per_worker),
                ("accelerators", self._accelerators),
                ("walltime", self._walltime_s),
            ],
        )
        command = shlex.join(agent.arguments())
        return command if self._key_file else f"export {KEY_VARIABLE}={key}\n{command}"

    def end(self) -> None:
        """Takes all blocks away."""
        if self.scaler is not None:
            self.scaler.end()
        if self._key_file and os.path.exists(self._key_file):
            os.unlink(self._key_file)

    def troubles(self) -> list[tuple[str, str]]:
        """Which blocks have ended, and how."""
        if self.scaler is None:
            return []
        statuses = self.scaler.blocks.statuses().items()
        return [(f"block {number}", in_words(one)) for number, one in statuses if one.terminal]
