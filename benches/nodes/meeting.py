"""A barrier that waits until every node of a cluster runs tasks."""

import socket
from time import sleep

from benches.nodes.engines import OnNodes

#: The time for which a task holds its worker, so that the next one goes to another node, seconds.
HOLD_S = 0.05


def host(_: int) -> str:
    """Returns the name of the worker's node after `HOLD_S`."""
    sleep(HOLD_S)
    return socket.gethostname()


def meet(engine: OnNodes) -> None:
    """Waits until every node has run a task."""
    seen: set[str] = set()
    while not seen.issuperset(engine.place.hosts):
        futures = [engine.submit(host, number) for number in range(2 * engine.workers)]
        seen.update(engine.collect(futures))
