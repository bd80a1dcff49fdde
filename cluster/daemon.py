"""A daemon on a machine of the cluster, from the time when it can be reached to its orderly end."""

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
    """Runs a daemon, which listens on the machine if there is a port. Ends it in order, with its child processes."""
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
