"""The surface fuzzer's batches with nodes: agents on this machine, executors and leases on them, and placements."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

from surface_judge import RESULT_S
from surface_values import same
from surface_world import Kinds, World, options_of


class NodesWorld(World):
    """An executor or a lease on two nodes, and the results of earlier calls."""

    def make_executor(self) -> Any:
        nodes = self.gristmill.on.local(2, 1)
        if self.random.random() < 0.5:
            return self.gristmill.Executor(nodes=nodes)
        return self.gristmill.Lease(nodes, seconds=self.random.choice((None, 1000)))

    def make_short_lived(self) -> Any:
        return self.gristmill.Executor(nodes=self.gristmill.on.local(1, 1))

    def kinds(self) -> Kinds:
        gristmill, on = self.gristmill, self.gristmill.on
        own = options_of(gristmill.Lease, "options")
        kinds = super().kinds()
        del kinds["array"]  # a node has no arena here
        return kinds | {
            "executor": (self.short_lived, options_of(gristmill.Executor)),
            "on nodes": (self.on_nodes, options_of(gristmill.Executor, "nodes")),
            "lease on nodes": (self.lease_on_nodes, [name for name in own if name != "nodes"]),
            "local": (on.local, options_of(on.local)),
            "hosts": (lambda **terms: on.hosts("h:1", **{"key": "k", **terms}), ["key"]),
            "addresses": (lambda addresses: on.hosts(addresses, key="k"), ["addresses"]),
            "ssh": (self.ssh, options_of(on.ssh)),
            "mpi": (self.mpi, options_of(on.mpi)),
            "ray": (self.ray, options_of(on.ray, "cluster")),
            "dask": (self.dask, options_of(on.dask)),
            "provider": (self.provider, options_of(on.provider)),
        }

    def on_nodes(self, **terms: Any) -> None:
        """Makes an executor on nodes, without tasks."""
        self.gristmill.Executor(nodes=self.gristmill.on.local(1), **terms).shutdown()

    def lease_on_nodes(self, **terms: Any) -> None:
        """Takes a lease on nodes and releases it before a node joins."""
        self.gristmill.Lease(self.gristmill.on.local(1), **terms).shutdown(cancel_futures=True)

    def ssh(self, **terms: Any) -> None:
        """Makes a placement that is never started."""
        self.gristmill.on.ssh(**{"hosts": ["h"], **terms})

    def mpi(self, **terms: Any) -> None:
        """Makes a placement that is never started."""
        self.gristmill.on.mpi(**{"launcher": ["mpiexec"], **terms})

    def ray(self, **terms: Any) -> None:
        """Makes a placement that is never started, on a cluster that seems to exist."""
        for name in ("ray", "ray.util", "ray.util.scheduling_strategies"):
            sys.modules[name] = types.ModuleType(name)
        vars(sys.modules["ray"])["is_initialized"] = lambda: True
        self.gristmill.on.ray(**terms)

    def dask(self, **terms: Any) -> None:
        """Makes a placement that is never started."""
        self.gristmill.on.dask(**{"client": DaskClient(), **terms})

    def provider(self, **terms: Any) -> None:
        """Makes a placement that is never started."""
        self.gristmill.on.provider(**{"provider": Provider(), **terms})

    def shares_placement(self) -> None:
        """Gives two executors the same placement."""
        nodes = self.gristmill.on.local(1, 1)
        executors = [self.gristmill.Executor(nodes=nodes) for _ in range(2)]
        futures = [self.attempt(lambda one=one: one.submit(same, 1)) for one in executors]
        for future in futures:
            if future is not None:
                self.attempt(lambda future=future: future.result(RESULT_S))
        for one in executors:
            self.attempt(lambda one=one: one.shutdown(cancel_futures=True))

    def forsakes(self) -> None:
        """Drops an executor that still has tasks."""
        future = self.attempt(lambda: self.make_short_lived().submit(same, 1))
        if future is not None:
            self.attempt(lambda: future.result(RESULT_S))

    def calls(self) -> list[Callable[[], None]]:
        calls = super().calls()
        # Agents take a second to start.
        rare = (self.lives, self.shares_placement, self.forsakes)
        return [call for call in calls if call != self.lives] * 3 + list(rare)


class DaskClient:
    """The parts of a Dask client that a placement reads when it is made."""

    asynchronous = False

    def register_plugin(self, *_arguments: Any, **_named: Any) -> None:
        """Does nothing."""


class Provider:
    """The parts of a Parsl provider that a placement reads when it is made."""

    init_blocks, min_blocks, max_blocks, parallelism, nodes_per_block = 1, 0, 1, 1, 1
    launcher: Any = None

    def submit(self, *_arguments: Any) -> None:
        """Does nothing."""

    status = cancel = submit
