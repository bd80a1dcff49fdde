"""Placements: the ways to start node agents on the nodes of an executor."""

from __future__ import annotations

import abc
import copy
import os
import weakref
from _thread import RLock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    from gristmill import _native
    from gristmill._executor import Executor
    from gristmill._nodes.view import ClientView

#: Serializes the claims of placements. Reentrant: signal handlers run in threads that hold it, and may make executors.
_claims = RLock()


class Claim:
    """The claim of an executor to a placement.

    It lasts until the placement has ended. The claim of an executor that never started its placement lasts until the
    executor is shut down or dropped.
    """

    def __init__(self, executor: Executor) -> None:
        self._executor = weakref.ref(executor)
        self.has_started = False

    def is_over(self) -> bool:
        """Returns whether another executor may use the placement."""
        executor = self._executor()
        return not self.has_started and (executor is None or executor._is_shut_down)


class Placement(abc.ABC):
    """A way to start agents on nodes, for one executor at a time.

    A placement starts with the executor's first task and ends with the executor. If it loses an agent, the submitted
    tasks lose only what was running there. While an executor has a placement of ``gristmill.on``, a copy of it serves
    each other executor. A placement of your own raises ``ValueError`` then.
    """

    #: The address at which agents join the client, as ``host:port``; ``None`` if the client dials them. ``[::]`` is
    #: every address of this machine, of IPv6 and of IPv4.
    listen: str | None = "[::]:0"
    #: The addresses of agents that listen themselves, as ``host:port``.
    dial: Sequence[str] = ()
    #: The number of agents with different names that there can be at a time; ``None`` if unknown. Once no worker can be
    #: started on so many agents, tasks fail.
    node_count: int | None = None
    #: True if its nodes are this machine, and so can read its disks.
    is_here = False
    #: The executor that it is started for.
    client: ClientView
    #: The claim of the executor that uses it.
    _claim: Claim | None = None

    def _claimed_by(self, executor: Executor) -> Placement:
        """Returns the placement for an executor: this one, or a copy while another executor uses this one.

        Raises ``ValueError`` if it is in use and cannot be copied.
        """
        with _claims:
            is_free = self._claim is None or self._claim.is_over()
            placement = self if is_free else self._copy()
            placement._claim = Claim(executor)
            return placement

    def _note_start(self) -> None:
        """Makes the claim last until ``_note_end``."""
        assert self._claim is not None, "an executor starts only what it has claimed"
        self._claim.has_started = True

    def _note_end(self) -> None:
        """Ends the claim: nothing of the placement runs any more."""
        self._claim = None

    def _copy(self) -> Self:
        """Returns a placement like this one that has not started. Raises ``ValueError`` if the class has no copies."""
        raise ValueError(
            f"nodes: another executor uses this {type(self).__name__}, which serves one at a time. Shut that executor "
            "down first, or give each executor a placement of its own"
        )

    def fleet(self) -> _native.Fleet:
        """Returns the keys with which client and agents authenticate."""
        from gristmill import _native

        return _native.Fleet()

    @abc.abstractmethod
    def start(self, address: str | None, key: str) -> None:
        """Starts agents that join ``address`` and authenticate with ``key``, a secret. Does not wait for them."""

    @abc.abstractmethod
    def end(self) -> None:
        """Ends the remaining agents; those end by themselves once their client has finished. May be called twice."""

    def failures(self) -> list[tuple[str, str]]:
        """Returns the missing agents: their hosts, and their last failures."""
        return []


class CopiedPlacement(Placement):
    """A placement whose copy, once it has forgotten the run, serves another executor."""

    @abc.abstractmethod
    def _forget_run(self) -> None:
        """Sets the attributes of a run to their values before ``start``. Changes none of their objects."""

    def _copy(self) -> Self:
        other = copy.copy(self)
        vars(other).pop("client", None)
        other._forget_run()
        return other


def _renew_claims() -> None:
    """Replaces the lock in a forked process, where the thread that may hold it does not exist."""
    global _claims
    _claims = RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_claims)


def port_of(address: str | None) -> int:
    """Returns the port of a listening address."""
    return int(opened(address).rpartition(":")[2])


def opened(address: str | None) -> str:
    """Returns the listening address. Raises ``ValueError`` if there is none."""
    if address is None:
        raise ValueError("this placement needs an address where agents join")
    return address
