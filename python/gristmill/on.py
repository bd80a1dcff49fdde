"""Where an executor's workers run: placements for ``Executor(nodes=...)``.

A placement puts node agents somewhere, by what a site runs anyway. The agents join the program, run its tasks and leave
when it has finished.
"""

from __future__ import annotations

from gristmill._nodes.blobs import Blobs
from gristmill._nodes.door import Door
from gristmill._nodes.groups import same_group
from gristmill._nodes.local import LocalNodes
from gristmill._nodes.placement import Placement
from gristmill._nodes.standing import StandingNodes

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence
    from typing import Any

    from gristmill._nodes.block_status import ErrorHandler
    from gristmill._nodes.groups import Group

__all__ = [
    "Blobs",
    "LocalNodes",
    "Placement",
    "StandingNodes",
    "dask",
    "hosts",
    "local",
    "mpi",
    "provider",
    "ray",
    "ssh",
]


def dask(
    client: Any,
    *,
    workers: int | None = None,
    address: str | None = None,
    interface: str | None = None,
    port: int = 0,
    group: Group = None,
    cpu_affinity: str = "none",
) -> Placement:
    """Puts an agent beside each worker of a Dask cluster, also beside those that come later.

    :param client: a connected ``distributed.Client`` that is not asynchronous.
    :param workers: workers of each agent; the threads of the Dask worker if not given.
    :param address: where nodes find this program; all addresses of this machine are tried if not given.
    :param interface: the network interface, as ``eth0``, whose address is meant.
    :param port: the port where this program listens for them; any free one if not given.
    :param group: nodes that they are near to, for large arguments: a name, or a function that is called on each worker
        with the name of its host.
    :param cpu_affinity: binds workers to cores: ``none``, ``numa``, ``block``, ``block-reverse``, ``alternating``, or
        ``list:0,1:2,3``; agents on one host divide its cores first.

    Dask knows nothing of the cores that the agents use: give it nothing to do meanwhile. Agents on one host share its
    cores, memory and GPUs; when workers come or go there, each offers its new part once it has nothing to do. An agent
    that is lost is started again. When those of all workers that there are have failed ten times in a row, tasks fail
    with ``StartError``.
    """
    from gristmill._nodes.dask import DaskNodes

    return DaskNodes(client, workers, Door(port, address, interface), group, cpu_affinity)


def hosts(*addresses: str, key: str | os.PathLike[str] | None = None) -> Placement:
    """Uses agents that are there already and listen at ``addresses``, each ``host:port``.

    :param key: the file with the client's key; ``GRISTMILL_CLIENT_KEY`` names it if not given. Raises ``ValueError``
        without either.

    An address that is not reached for ten seconds is logged, and tried for as long as the program runs.
    """
    return StandingNodes(addresses, key)


def local(
    count: int = 2,
    workers: int = 1,
    *,
    port: int = 0,
    group: Group = None,
    cpu_affinity: str = "none",
) -> Placement:
    """Puts ``count`` agents with ``workers`` workers each on this machine, as if they were nodes of a cluster.

    :param port: the port where this program listens for them; any free one if not given.
    :param group: nodes that they are near to, for large arguments: a name, or a function that gives it by a node's
        name, which is ``local0``, ``local1``, ...
    :param cpu_affinity: binds workers to cores: ``none``, ``numa``, ``block``, ``block-reverse``, ``alternating``, or
        ``list:0,1:2,3``; agents divide the cores first.

    Each offers its part of the machine's memory and GPUs. One that is lost is started again; when all have failed ten
    times in a row, tasks fail with ``StartError``.
    """
    return LocalNodes(count, workers, port, group, cpu_affinity)


def ray(
    cluster: str | None = None,
    *,
    nodes: int | None = None,
    cpus: float | None = None,
    workers: int | None = None,
    options: Mapping[str, Any] | None = None,
    address: str | None = None,
    interface: str | None = None,
    port: int = 0,
    group: Group = None,
    cpu_affinity: str = "none",
) -> Placement:
    """Puts an agent on each node of a Ray cluster, as an actor that Ray restarts. They follow when the cluster scales.

    :param cluster: what ``ray.init`` takes; the cluster that this program or its environment has if not given.
    :param nodes: on how many nodes; on all if not given.
    :param cpus: cores that each actor reserves; all of its node if not given.
    :param workers: workers of each; as many as the cores if not given.
    :param options: further options of the actors, such as ``{"resources": {"special": 1}}``.
    :param address: where nodes find this program; all addresses of this machine are tried if not given.
    :param interface: the network interface, as ``eth0``, whose address is meant.
    :param port: the port where this program listens for them; any free one if not given.
    :param group: nodes that they are near to, for large arguments: a name, or a function that gives it by a host's
        name.
    :param cpu_affinity: binds workers to cores: ``none``, ``numa``, ``block``, ``block-reverse``, ``alternating``, or
        ``list:0,1:2,3``; but for the last, to as many cores as their actor reserves, which no other agent has chosen.

    Actors reserve the GPUs of their nodes too, unless ``options`` has ``num_gpus``. When those of all nodes, or their
    agents, have failed ten times in a row, tasks fail with ``StartError``.

    Connects to the cluster at once if the program has not done so. Raises ``ConnectionError`` if there is none.
    """
    import importlib

    from gristmill._nodes.ray import RayNodes

    door = Door(port, address, interface)
    module = importlib.import_module("ray")
    importlib.import_module("ray.util.scheduling_strategies")
    is_ours = not module.is_initialized()
    if is_ours:
        module.init(cluster or "auto", logging_level="warning")
    given = options or {}
    return RayNodes(module, is_ours, nodes, cpus, workers, given, door, group, cpu_affinity)


def ssh(
    hosts: Sequence[str],
    *,
    workers: int | None = None,
    python: str | None = None,
    worker_init: str = "",
    shell: Sequence[str] = ("ssh",),
    address: str | None = None,
    interface: str | None = None,
    port: int = 0,
    group: Group = None,
    reverse: bool = False,
    cpu_affinity: str = "none",
) -> Placement:
    """Puts an agent on each of the hosts with the system's ``ssh``, which must not ask for a password.

    :param hosts: names as ``ssh`` takes them.
    :param workers: workers on each; its cores if not given.
    :param python: the interpreter there, which has Gristmill; the path of this one if not given.
    :param worker_init: commands of a login shell before the agent starts, such as ``module load python``.
    :param shell: the command, and options of it.
    :param address: where the hosts find this program; all addresses of this machine are tried if not given.
    :param interface: the network interface, as ``eth0``, whose address is meant.
    :param port: the port where this program listens for them; any free one if not given.
    :param group: nodes that they are near to, for large arguments: a name, or a function that gives it by a host's
        name.
    :param reverse: hosts reach this program through the connections of ``ssh`` (``ssh -R``), because they cannot reach
        its machine: a laptop, or one behind a firewall. Nothing listens at any address that others can reach.
    :param cpu_affinity: binds workers to cores: ``none``, ``numa``, ``block``, ``block-reverse``, ``alternating``, or
        ``list:0,1:2,3``.

    An agent that is lost is started again, after pauses that grow to a minute. A host that has failed ten times in a
    row is left alone, which is logged; when all are, tasks fail with ``StartError``. An agent that cannot reach this
    program needs two minutes to fail.
    """
    from gristmill._nodes.ssh import SshNodes

    door = Door(port, address, interface)
    how = door, group, reverse, cpu_affinity
    return SshNodes(hosts, workers, python, worker_init, shell, *how)


def mpi(
    count: int | None = None,
    *,
    launcher: Sequence[str] | None = None,
    workers: int | None = None,
    python: str | None = None,
    address: str | None = None,
    interface: str | None = None,
    port: int = 0,
    group: str | None = None,
    cpu_affinity: str = "none",
) -> Placement:
    """Makes the ranks of a parallel program agents: the program starts a launcher, which starts them on its nodes.

    :param count: how many ranks; one on each node of an allocation of Slurm if not given.
    :param launcher: the launcher and its options, such as ``["mpiexec", "-n", "8", "--hostfile", "hosts"]``; ``srun``
        in an allocation of Slurm, else ``mpiexec``, if not given.
    :param workers: workers of each rank; its cores, or its share of the node's, if not given.
    :param python: the interpreter there, which has Gristmill; the path of this one if not given.
    :param address: where ranks find this program; all addresses of this machine are tried if not given.
    :param interface: the network interface, as ``eth0``, whose address is meant.
    :param port: the port where this program listens for them; any free one if not given.
    :param group: nodes that all of them are near to, for large arguments.
    :param cpu_affinity: binds workers to cores: ``none``, ``numa``, ``block``, ``block-reverse``, ``alternating``, or
        ``list:0,1:2,3``; ranks of one node divide its cores first, unless the launcher has bound them.

    A launcher that ends while it is needed is started again, after pauses that grow to a minute. After ten failures in
    a row tasks fail with ``StartError``. Ranks of one node share its memory and GPUs. Neither Gristmill nor the program
    has to know of MPI. The program may itself be a rank of another launcher; each that calls this starts ranks of its
    own.
    """
    from gristmill._nodes.mpi import RankNodes, choose_launcher

    door, group = Door(port, address, interface), same_group(group)
    launcher = launcher or choose_launcher(count)
    return RankNodes(launcher, workers, python, door, group, cpu_affinity)


def provider(
    provider: Any,
    launcher: Any = None,
    *,
    nodes_per_block: int | None = None,
    init_blocks: int | None = None,
    min_blocks: int | None = None,
    max_blocks: int | None = None,
    parallelism: float | None = None,
    max_workers_per_node: float | None = None,
    cores_per_worker: float = 1.0,
    mem_per_worker: float | None = None,
    cpu_affinity: str = "none",
    strategy: str | None = "simple",
    strategy_period: float = 5.0,
    max_idletime: float = 120.0,
    block_error_handler: bool | ErrorHandler = True,
    submissions: tuple[int, float] = (10, 10.0),
    address: str | None = None,
    interface: str | None = None,
    python: str | None = None,
    run_dir: str = "runinfo",
    is_folder_shared: bool = True,
    label: str = "gristmill",
    available_accelerators: int | Sequence[str] = (),
    port: int = 0,
    group: str | None = None,
) -> Placement:
    """Puts agents into the jobs of a batch system, through a provider and a launcher of Parsl's.

    :param provider: for example ``SlurmProvider("debug", launcher=SrunLauncher(), walltime="01:00:00")``.
    :param launcher: in the place of the provider's own; as are the five after it.
    :param max_workers_per_node: workers on each node; as many as its cores and memory allow if not given.
    :param cores_per_worker: cores that a worker is thought to use.
    :param mem_per_worker: memory that a worker is thought to use, gigabytes.
    :param cpu_affinity: binds workers to cores: ``none``, ``numa``, ``block``, ``block-reverse``, ``alternating``, or
        ``list:0,1:2,3``.
    :param strategy: ``none``: the first blocks and no others; ``simple``: as many as the tasks ask for;
        ``htex_auto_scale``: blocks that are idle while others work are taken away, too.
    :param strategy_period: seconds between two looks at the tasks, at most.
    :param max_idletime: seconds without a task after which only ``min_blocks`` are kept.
    :param block_error_handler: ``True``: when all blocks have failed, tasks fail with what their jobs left behind;
        ``False``: others are submitted; or a handler of Parsl's kind, ``handler(blocks, {number: status})``.
    :param submissions: how many jobs may be submitted within how many seconds.
    :param address: where nodes find this program; all addresses of this machine are tried if not given.
    :param interface: the network interface, as ``eth0``, whose address is meant.
    :param python: the interpreter on the nodes, which has Gristmill; the path of this one if not given.
    :param run_dir: below it the scripts and the output of the jobs are kept, in numbered folders.
    :param is_folder_shared: whether nodes see that folder: the nodes' key is in a file there that only its owner can
        read, else in the jobs' scripts.
    :param label: what the jobs' names begin with.
    :param available_accelerators: how many GPUs a node has, or their names as in ``CUDA_VISIBLE_DEVICES``: each worker
        sees one of them, a name such as ``"0,1"`` two, and there are no more workers than GPUs. A task that asks for
        GPUs sees those that it is given instead.
    :param port: the port where this program listens for nodes; any free one if not given.
    :param group: nodes that all of them are near to, for large arguments.

    The first blocks are submitted with the executor's first task. Jobs are cancelled when the executor is shut down.
    """
    from gristmill._nodes.provider import BlockOptions, ProviderNodes

    given = {
        "launcher": launcher,
        "nodes_per_block": nodes_per_block,
        "init_blocks": init_blocks,
        "min_blocks": min_blocks,
        "max_blocks": max_blocks,
        "parallelism": parallelism,
    }
    for name, value in given.items():
        if value is not None:
            setattr(provider, name, value)
    options = BlockOptions(
        label,
        max_workers_per_node,
        cores_per_worker,
        mem_per_worker,
        cpu_affinity,
        strategy,
        strategy_period,
        max_idletime,
        block_error_handler,
        submissions,
        address,
        interface,
        python,
        run_dir,
        is_folder_shared,
        available_accelerators,
        port,
        group,
    )
    return ProviderNodes(provider, options)
