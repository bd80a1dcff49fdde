"""Where an executor's workers run: placements for ``Executor(nodes=...)``.

A placement puts node agents somewhere, by what a site runs anyway. The agents join the program, run its tasks and leave
when it has finished.
"""

from __future__ import annotations

from gristmill._nodes.local import LocalNodes
from gristmill._nodes.placement import Placement
from gristmill._nodes.standing import StandingNodes

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

__all__ = ["LocalNodes", "Placement", "StandingNodes", "hosts", "local", "ssh"]


def hosts(*addresses: str, key: str | os.PathLike[str] | None = None) -> Placement:
    """Uses agents that are there already and listen at ``addresses``, each ``host:port``.

    :param key: the file with the client's key; ``GRISTMILL_CLIENT_KEY`` names it if not given. Raises ``ValueError``
        without either.
    """
    return StandingNodes(addresses, key)


def local(count: int = 2, workers: int = 1) -> Placement:
    """Puts ``count`` agents with ``workers`` workers each on this machine, as if they were nodes of a cluster."""
    return LocalNodes(count, workers)


def ssh(
    hosts: Sequence[str],
    *,
    workers: int | None = None,
    python: str | None = None,
    worker_init: str = "",
    shell: Sequence[str] = ("ssh",),
    address: str | None = None,
    interface: str | None = None,
) -> Placement:
    """Puts an agent on each of the hosts with the system's ``ssh``, which must not ask for a password.

    :param hosts: names as ``ssh`` takes them.
    :param workers: workers on each; its cores if not given.
    :param python: the interpreter there, which has Gristmill; the path of this one if not given.
    :param worker_init: commands of a login shell before the agent starts, such as ``module load python``.
    :param shell: the command, and options of it.
    :param address: where the hosts find this program; all addresses of this machine are tried if not given.
    :param interface: the network interface, as ``eth0``, whose address is meant.

    An agent that is lost is started again, after pauses that grow to a minute. A host that has failed ten times in a
    row is left alone, which is logged; when all are, tasks fail with ``StartError``.
    """
    from gristmill._nodes.ssh import SshNodes

    return SshNodes(hosts, workers, python, worker_init, shell, address, interface)
