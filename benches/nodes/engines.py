"""The engines on a cluster: clients of processes that are on its nodes already, or put there."""

import importlib
import shlex
from concurrent.futures import Executor
from typing import Any, ClassVar, cast

from benches.adapters.base import Engine, share_paths, suite
from benches.adapters.clusters import DaskEngine, RayEngine
from benches.adapters.gristmill_engine import GristmillEngine
from benches.adapters.kernels import ParslHtexEngine
from benches.nodes.order import Place


class OnNodes(Engine):
    """An engine with one worker on each node of a place."""

    #: Module with this engine's recursive `fibonacci`; empty where a task cannot wait for others.
    recursion: ClassVar[str] = ""

    def __init__(self, place: Place) -> None:
        super().__init__(workers=len(place.hosts))
        self.place = place


class GristmillOnNodes(OnNodes, GristmillEngine):
    """Agents that stand by; connections authenticated and encrypted, as always."""

    recursion = "benches.nodes.recursion_gristmill"

    def open(self) -> Executor:
        share_paths()
        gristmill = importlib.import_module("gristmill")
        hosts = importlib.import_module("gristmill.on").hosts
        nodes = hosts(*self.place.meeting, key=self.place.key)
        return cast(Executor, gristmill.Executor(nodes=nodes))


class DaskOnNodes(OnNodes, DaskEngine):
    """A scheduler at the login end, a worker process with one thread on each node."""

    recursion = "benches.nodes.recursion_dask"

    def connected(self) -> Any:
        return suite("clusters").DaskClient(self.place.meeting[0])


class RayOnNodes(OnNodes, RayEngine):
    """The head, without a core to run tasks on, at the login end; a raylet on each node."""

    recursion = "benches.nodes.recursion_ray"

    def connected(self) -> Any:
        return suite("clusters").RayClient(address=self.place.meeting[0])


class HtexOnNodes(OnNodes, ParslHtexEngine):
    """The interchange at the login end; one block that is a manager on each node."""

    def executor(self, folder: str) -> Any:
        shell = shlex.quote(self.place.shell)
        each = f'for host in {shlex.join(self.place.hosts)}; do {shell} $host "$*" & done; wait'
        launcher = importlib.import_module("parsl.launchers").WrappedLauncher(
            f"sh -c {shlex.quote(each)} -"
        )
        provider = importlib.import_module("parsl.providers").LocalProvider(
            init_blocks=1, max_blocks=1, launcher=launcher
        )
        return suite("parsls").htex(1, folder, address=self.place.address, provider=provider)


ENGINES: dict[str, type[OnNodes]] = {
    engine.key: engine for engine in (GristmillOnNodes, HtexOnNodes, RayOnNodes, DaskOnNodes)
}
