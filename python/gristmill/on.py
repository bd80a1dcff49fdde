"""Placements for ``Executor(nodes=...)``, which decide where an executor's workers run.

A placement starts node agents through what a site runs anyway. The agents join the program, run its tasks and leave
when it has finished.
"""

from __future__ import annotations

from gristmill import _options
from gristmill._nodes.blobs import Blobs
from gristmill._nodes.local import LocalNodes
from gristmill._nodes.network import Network
from gristmill._nodes.placement import Placement
from gristmill._nodes.standing import StandingNodes

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence
    from typing import Any

    from gristmill._nodes.block_status import ErrorHandler

__all__ = [
    "Blobs",
    "LocalNodes",
    "Network",
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
    network: Network | None = None,
    cpu_affinity: str = "none",
) -> Placement:
    """Puts an agent beside each worker of a Dask cluster, also beside workers that come later.

    :param client: a connected ``distributed.Client`` that is not asynchronous.
    :param workers: workers of each agent; by default the threads of the Dask worker.
    :param network: where nodes find this program, and their groups; by default as ``on.Network()``. A function for the
        groups is called on each worker with the name of its host.
    :param cpu_affinity: binding of workers to cores: ``none``, ``numa``, ``block``, ``block-reverse``, ``alternating``,
        or ``list:0,1:2,3``. Agents on one host divide its cores first.

    Dask does not know which cores the agents use: give it nothing to do meanwhile. Agents on one host share its cores,
    memory and GPUs. When Dask workers come or go there, each agent offers its new share once it has nothing to do. An
    agent that is lost is started again. When the agents of all present workers have failed ten times in a row, tasks
    fail with ``StartError``; so they do when no node is connected and the cluster has not answered ten times in a row
    or for five minutes.
    """
    from gristmill._nodes.dask import DaskNodes

    return DaskNodes(client, workers, network, cpu_affinity)


def hosts(*addresses: str, key: str | os.PathLike[str] | None = None) -> Placement:
    """Uses agents that run already and listen.

    :param addresses: the addresses of the agents, each ``host:port``, as in ``n1:7700`` or ``[fd00::1]:7700``.
    :param key: the file with the client's key; by default the one that ``GRISTMILL_CLIENT_KEY`` names. Without either,
        this function raises ``ValueError``.

    An address that is not reached for ten seconds is logged, and tried for as long as the program runs. An unknown host
    name is an error: the first task raises ``StartError``, which names the host.
    """
    return StandingNodes(addresses, key)


def local(
    count: int = 2,
    workers: int = 1,
    *,
    network: Network | None = None,
    cpu_affinity: str = "none",
) -> Placement:
    """Puts ``count`` agents with ``workers`` workers each on this machine, as if they were nodes of a cluster.

    :param count: the number of agents.
    :param workers: workers of each agent.
    :param network: the port where this program listens for nodes, and their groups, as ``on.Network(port=, group=)``.
        The nodes are named ``local0``, ``local1``, ...
    :param cpu_affinity: binding of workers to cores: ``none``, ``numa``, ``block``, ``block-reverse``, ``alternating``,
        or ``list:0,1:2,3``. Agents divide the cores first.

    Each agent offers its share of the machine's memory and GPUs. An agent that is lost is started again. When all have
    failed ten times in a row, tasks fail with ``StartError``.

    ```pycon
    >>> from gristmill import Executor, on
    >>> with Executor(nodes=on.local(2)) as executor:
    ...     executor.submit(pow, 2, 10).result()
    1024
    ```
    """
    return LocalNodes(count, workers, network, cpu_affinity)


def ray(
    cluster: str | None = None,
    *,
    nodes: int | None = None,
    cpus: float | None = None,
    workers: int | None = None,
    options: Mapping[str, Any] | None = None,
    network: Network | None = None,
    cpu_affinity: str = "none",
) -> Placement:
    """Puts an agent on each node of a Ray cluster, as an actor that Ray restarts. Agents follow the cluster's scaling.

    :param cluster: the address for ``ray.init``; by default the cluster of this program or of its environment.
    :param nodes: the number of nodes; by default all.
    :param cpus: cores that each actor reserves; by default all of its node.
    :param workers: workers of each agent; by default as many as the cores.
    :param options: further options of the actors, such as ``{"resources": {"special": 1}}``.
    :param network: where nodes find this program, and their groups; by default as ``on.Network()``.
    :param cpu_affinity: binding of workers to cores: ``none``, ``numa``, ``block``, ``block-reverse``, ``alternating``,
        or ``list:0,1:2,3``. Except for the last, an agent binds its workers to as many cores as its actor reserves, and
        to none that another agent has chosen.

    Actors reserve the GPUs of their nodes too, unless ``options`` has ``num_gpus``. When the actors of all nodes, or
    their agents, have failed ten times in a row, tasks fail with ``StartError``; so they do when no node is connected
    and the cluster has not answered ten times in a row or for five minutes.

    Connects to the cluster at once if the program has not done so. Raises ``ConnectionError`` if there is none. The
    connection closes with the last executor that uses it, and is made again for the next one.
    """
    import importlib

    from gristmill._nodes.ray import RayNodes, connect, is_connection_ours

    module = importlib.import_module("ray")
    importlib.import_module("ray.util.scheduling_strategies")
    is_ours = is_connection_ours(module)
    given = {} if options is None else options
    how = nodes, cpus, workers, given, network, cpu_affinity
    placement = RayNodes(module, is_ours, *how)
    placement.cluster = _options.optional_text("cluster", cluster)
    # Not earlier: invalid options are refused even if there is no cluster.
    connect(module, placement.cluster)
    return placement


def ssh(
    hosts: Sequence[str],
    *,
    workers: int | None = None,
    python: str | None = None,
    worker_init: str = "",
    shell: Sequence[str] = ("ssh",),
    network: Network | None = None,
    reverse: bool = False,
    cpu_affinity: str = "none",
) -> Placement:
    """Puts an agent on each of the hosts with the system's ``ssh``, which must not ask for a password.

    :param hosts: names as ``ssh`` takes them.
    :param workers: workers on each host; by default its cores.
    :param python: the interpreter there, which has Gristmill; by default the path of this one.
    :param worker_init: commands of ``bash -l`` before the agent starts, such as ``module load python``, on one line or
        several. They read nothing from standard input.
    :param shell: the command, and options of it.
    :param network: where the hosts find this program, and their groups; by default as ``on.Network()``.
    :param reverse: makes hosts reach this program through the connections of ``ssh`` (``ssh -R``), for a machine that
        they cannot reach: a laptop, or one behind a firewall. Nothing listens at any address that others can reach.
    :param cpu_affinity: binding of workers to cores: ``none``, ``numa``, ``block``, ``block-reverse``, ``alternating``,
        or ``list:0,1:2,3``.

    An agent that is lost is started again, after pauses that grow to a minute. A host is given up, and this is logged,
    when it has failed ten times in a row, or when ``ssh`` has not found its name twice in a row. When all hosts are
    given up, tasks fail with ``StartError``. An agent that cannot reach this program needs two minutes to fail, and one
    that has not joined after ten minutes is ended.
    """
    from gristmill._nodes.ssh import SshNodes

    how = network, reverse, cpu_affinity
    return SshNodes(hosts, workers, python, worker_init, shell, *how)


def mpi(
    count: int | None = None,
    *,
    launcher: Sequence[str] | None = None,
    workers: int | None = None,
    python: str | None = None,
    network: Network | None = None,
    cpu_affinity: str = "none",
) -> Placement:
    """Makes the ranks of a parallel program agents. This program starts a launcher, which starts the ranks.

    :param count: the number of ranks; by default one on each node of a Slurm allocation.
    :param launcher: the launcher and its options, such as ``["mpiexec", "-n", "8", "--hostfile", "hosts"]``; by default
        ``srun`` in a Slurm allocation, else ``mpiexec``.
    :param workers: workers of each rank; by default its cores, or its share of the node's.
    :param python: the interpreter there, which has Gristmill; by default the path of this one.
    :param network: where ranks find this program, and the group that all of them belong to; by default as
        ``on.Network()``.
    :param cpu_affinity: binding of workers to cores: ``none``, ``numa``, ``block``, ``block-reverse``, ``alternating``,
        or ``list:0,1:2,3``. Ranks of one node divide its cores first, unless the launcher has bound them.

    A launcher that ends while it is needed is started again, after pauses that grow to a minute. After ten failures in
    a row tasks fail with ``StartError``. Ranks of one node share its memory and GPUs. Neither Gristmill nor the program
    has to know of MPI. The program may itself be a rank of another launcher. Each such rank that calls this function
    starts ranks of its own.
    """
    from gristmill._nodes.mpi import RankNodes, choose_launcher

    count = _options.optional_count("count", count, 1, _options.LONG_MAX)
    if launcher is None:
        launcher = choose_launcher(count)
    return RankNodes(launcher, workers, python, network, cpu_affinity)


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
    network: Network | None = None,
    python: str | None = None,
    run_dir: str = "runinfo",
    is_folder_shared: bool = True,
    label: str = "gristmill",
    available_accelerators: int | Sequence[str] = (),
) -> Placement:
    """Puts agents into the jobs of a batch system, through a provider and a launcher of Parsl.

    :param provider: for example ``SlurmProvider("debug", launcher=SrunLauncher(), walltime="01:00:00")``.
    :param launcher: replaces the provider's own launcher. The five parameters after it replace the provider's values,
        too.
    :param max_workers_per_node: workers on each node; by default as many as its cores and memory allow.
    :param cores_per_worker: cores that a worker is assumed to use.
    :param mem_per_worker: memory that a worker is assumed to use, gigabytes.
    :param cpu_affinity: binding of workers to cores: ``none``, ``numa``, ``block``, ``block-reverse``, ``alternating``,
        or ``list:0,1:2,3``.
    :param strategy: ``none``: the first blocks and no others; ``simple``: as many as the tasks require;
        ``htex_auto_scale``: in addition, removes blocks that are idle while others work.
    :param strategy_period: the longest time between two checks of the tasks, seconds.
    :param max_idletime: seconds without a task after which only ``min_blocks`` are kept.
    :param block_error_handler: ``True``: when all blocks have failed, tasks fail with the output that their jobs left
        behind; ``False``: other blocks are submitted; or a handler like Parsl's, ``handler(blocks, {number: status})``.
    :param submissions: the number of jobs that may be submitted within a number of seconds.
    :param network: where nodes find this program, and the group that all of them belong to; by default as
        ``on.Network()``.
    :param python: the interpreter on the nodes, which has Gristmill; by default the path of this one.
    :param run_dir: the folder below which the scripts and the output of the jobs are kept, in numbered folders.
    :param is_folder_shared: whether nodes see that folder. If so, the nodes' key is in a file there that only its owner
        can read, else in the jobs' scripts.
    :param label: the beginning of the jobs' names.
    :param available_accelerators: the number of GPUs of a node, or their names as in ``CUDA_VISIBLE_DEVICES``. Each
        worker sees one of them, or two for a name such as ``"0,1"``, and there are no more workers than GPUs. A task
        that requests GPUs sees those that it is granted instead.

    The placement works on a copy of the provider, which has its own table of jobs. The first blocks are submitted with
    the executor's first task. Jobs are cancelled when the executor is shut down. A launcher that puts words before the
    command must pass ``GRISTMILL_NODE_KEY`` on if ``is_folder_shared`` is ``False``.
    """
    from gristmill._nodes.provider import BlockOptions, ProviderNodes, own_provider

    given = {
        "launcher": launcher,
        "nodes_per_block": nodes_per_block,
        "init_blocks": init_blocks,
        "min_blocks": min_blocks,
        "max_blocks": max_blocks,
        "parallelism": parallelism,
    }
    _options.optional_count("nodes_per_block", nodes_per_block, 1, _options.LONG_MAX)
    for name in ("init_blocks", "min_blocks", "max_blocks"):
        _options.optional_count(name, given[name], 0, _options.LONG_MAX)
    if parallelism is not None:
        _options.number("parallelism", parallelism, 0, _options.SHORT_MAX)
    # The caller's own object may be in another placement, with other values.
    provider = own_provider(provider)
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
        network,
        python,
        run_dir,
        is_folder_shared,
        available_accelerators,
    )
    return ProviderNodes(provider, options)
