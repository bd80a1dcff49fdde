"""The engines on a cluster: clients of processes that already run on its nodes, or that the client starts there."""

import importlib
import shlex
from typing import Any, ClassVar

import gristmill
from benches.engines.base import Engine
from benches.engines.kernels import ParslHtexEngine
from benches.engines.ours import GristmillEngine
from benches.engines.peers import DaskEngine, RayEngine
from benches.nodes.order import Place
from gristmill import on
from gristmill_bench.executors.bare import Bare, BareExecutor
from gristmill_bench.executors.clusters import BareDask, BareRay, DaskClient, RayClient
from gristmill_bench.executors.parsl_kernels import BareKernel, Kernel, htex


class OnNodes(Engine):
    """An engine with one worker on each node of a place."""

    #: The module with this engine's recursive `fibonacci`; empty if a task cannot wait for others.
    recursion: ClassVar[str] = ""

    def __init__(self, place: Place) -> None:
        super().__init__(workers=len(place.hosts))
        self.place = place


class GristmillOnNodes(OnNodes, GristmillEngine):
    """Listening agents; connections authenticated and encrypted, as always."""

    recursion = "benches.nodes.recursion_gristmill"

    def open(self) -> Bare:
        nodes = on.hosts(*self.place.meeting, key=self.place.key)
        return BareExecutor(gristmill.Executor(nodes=nodes))


class DaskOnNodes(OnNodes, DaskEngine):
    """A scheduler on the login machine, a worker process with one thread on each node."""

    recursion = "benches.nodes.recursion_dask"

    def open(self) -> Bare:
        return BareDask(DaskClient(self.place.meeting[0]))


class RayOnNodes(OnNodes, RayEngine):
    """The head, without a core to run tasks on, on the login machine; a raylet on each node."""

    recursion = "benches.nodes.recursion_ray"

    def open(self) -> Bare:
        return BareRay(RayClient(address=self.place.meeting[0]))


class HtexOnNodes(OnNodes, ParslHtexEngine):
    """The interchange on the login machine; one block that is a manager on each node."""

    def open(self) -> Bare:
        return BareKernel(Kernel("parsl", self._executor))

    def _executor(self, folder: str) -> Any:
        shell = shlex.quote(self.place.shell)
        each = f'for host in {shlex.join(self.place.hosts)}; do {shell} $host "$*" & done; wait'
        launcher = importlib.import_module("parsl.launchers").WrappedLauncher(
            f"sh -c {shlex.quote(each)} -"
        )
        provider = importlib.import_module("parsl.providers").LocalProvider(
            init_blocks=1, max_blocks=1, launcher=launcher
        )
        return htex(1, folder, address=self.place.address, provider=provider)


ENGINES: dict[str, type[OnNodes]] = {
    engine.key: engine for engine in (GristmillOnNodes, HtexOnNodes, RayOnNodes, DaskOnNodes)
}
