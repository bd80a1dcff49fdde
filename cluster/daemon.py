"""A daemon on a machine of the cluster, from the moment it can be reached to its end in order."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping

from cluster.machine import Machine
from cluster.waiting import listens, until


@contextlib.contextmanager
def running(
    machine: Machine,
    command: list[str],
    port: int = 0,
    environment: Mapping[str, str] | None = None,
) -> Iterator[None]:
    """A daemon, which listens there if there is a port; it ends in order, with those that it has started."""
    with (
        tempfile.TemporaryFile("w+") as log,
        machine.start(command, env=environment, stdout=log, stderr=log) as process,
    ):

        def look() -> bool:
            if process.poll() is not None:
                log.seek(0)
                raise OSError(f"{command[2]} has ended: {log.read()}")
            return listens(machine.address, port)

        if port:
            until(look)
        yield
        process.terminate()
        process.wait()
