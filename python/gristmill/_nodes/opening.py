"""The start of an executor whose workers are on nodes: its door is opened, and agents are placed."""

from __future__ import annotations

import logging
import os

from gristmill._nodes import news
from gristmill._nodes.view import ClientView
from gristmill._top import status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gristmill._executor import Executor
    from gristmill._nodes.placement import Placement

_log = logging.getLogger("gristmill.nodes")

#: How often a client and a node give each other a sign of life, and how long silence may last, seconds.
BEAT_S, EXPIRY_S = 0.5, 2.0


def open_door(executor: Executor, placement: Placement, world: bytes) -> None:
    """Lets nodes in, and has the placement send them. Raises ``StartError`` where nobody can listen."""
    fleet = placement.fleet()
    address = executor._open_door(
        fleet,
        world,
        listen=placement.listen,
        dial=list(placement.dial),
        name=f"{os.uname().nodename}:{os.getpid()}",
        directory=os.getcwdb(),
        beat_s=BEAT_S,
        expiry_s=EXPIRY_S,
        nodes_max=_count(placement),
        told=_tell,
        **executor._wish,
    )
    status.serve(executor)
    news.report(executor)
    placement.client = ClientView(executor)
    try:
        placement.start(address, fleet.node_key())
    except BaseException as error:
        # This call raises it; those after it are taken, and would wait for nodes for ever.
        placement.client.give_up(str(error))
        raise


def _count(placement: Placement) -> int | None:
    """How many nodes there can be, if anybody knows."""
    return len(placement.dial) if placement.listen is None else placement.node_count


def _tell(name: str, text: str) -> None:
    """Says that a node is of no use to this program; called once for each."""
    _log.warning("node %s gets nothing from this program: %s", name, text)
