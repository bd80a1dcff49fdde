"""The start of an executor whose workers are on nodes: it opens the port for agents and starts the placement."""

from __future__ import annotations

import logging
import os

from gristmill._nodes import node_events
from gristmill._nodes.view import ClientView

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gristmill._executor import Executor
    from gristmill._nodes.placement import Placement

_log = logging.getLogger("gristmill.nodes")

#: The heartbeat interval between client and node, and the silence after which a node is lost, seconds.
BEAT_S, EXPIRY_S = 0.5, 2.0


def open_connections(executor: Executor, placement: Placement, environment: bytes) -> None:
    """Opens the port for nodes and starts the placement. Raises ``StartError`` if the address is not available.

    If this raises, the engine fails every task, because no task would ever have a node.
    """
    fleet = placement.fleet()
    address = executor._open_connection_manager(
        fleet,
        environment,
        listen=placement.listen,
        dial=list(placement.dial),
        name=f"{os.uname().nodename}:{os.getpid()}",
        directory=os.getcwdb(),
        beat_s=BEAT_S,
        expiry_s=EXPIRY_S,
        nodes_max=_count(placement),
        on_event=_tell,
        **executor._lease_request,
    )
    node_events.report(executor)
    placement.client = ClientView(executor)
    placement.start(address, fleet.node_key())


def _count(placement: Placement) -> int | None:
    """Returns the number of nodes that there can be, or ``None`` if it is unknown."""
    return len(placement.dial) if placement.listen is None else placement.node_count


def _tell(name: str, text: str) -> None:
    """Logs that this program gives a node no tasks any more, and why. Called once for each node."""
    _log.warning("node %s gets no tasks from this program: %s", name, text)
