"""Providers for programs without Parsl: this machine. Batch systems and clouds need Parsl."""

from __future__ import annotations

from gristmill.parsl._kernel.launchers import SimpleLauncher, SingleNodeLauncher
from gristmill.parsl._kernel.parsl_detection import missing
from gristmill.parsl._kernel.representation import RepresentationMixin

__all__ = [
    "AWSProvider",
    "AzureProvider",
    "CondorProvider",
    "GoogleCloudProvider",
    "GridEngineProvider",
    "KubernetesProvider",
    "LSFProvider",
    "LocalProvider",
    "PBSProProvider",
    "SlurmProvider",
    "TorqueProvider",
]


class LocalProvider(RepresentationMixin):
    """The provider of a configuration for this machine; see Parsl's class for the fields.

    It starts nothing: Gristmill's engine starts its workers itself, which takes milliseconds. The fields about the
    number of blocks are kept and not used, except that ``max_blocks`` and ``nodes_per_block`` multiply
    ``HighThroughputExecutor.max_workers_per_node``.
    """

    label = "local"

    def __init__(
        self,
        nodes_per_block: int = 1,
        launcher: SimpleLauncher | SingleNodeLauncher | None = None,
        init_blocks: int = 1,
        min_blocks: int = 0,
        max_blocks: int = 1,
        worker_init: str = "",
        cmd_timeout: float = 30,
        parallelism: float = 1,
    ) -> None:
        self.nodes_per_block = nodes_per_block
        self.launcher = launcher if launcher is not None else SingleNodeLauncher()
        self.init_blocks = init_blocks
        self.min_blocks = min_blocks
        self.max_blocks = max_blocks
        self.worker_init = worker_init
        self.cmd_timeout = cmd_timeout
        self.parallelism = parallelism


AWSProvider = missing("AWSProvider", "parsl[aws]")
AzureProvider = missing("AzureProvider", "parsl[azure]")
CondorProvider = missing("CondorProvider")
GoogleCloudProvider = missing("GoogleCloudProvider", "parsl[google_cloud]")
GridEngineProvider = missing("GridEngineProvider")
KubernetesProvider = missing("KubernetesProvider", "parsl[kubernetes]")
LSFProvider = missing("LSFProvider")
PBSProProvider = missing("PBSProProvider")
SlurmProvider = missing("SlurmProvider")
TorqueProvider = missing("TorqueProvider")
