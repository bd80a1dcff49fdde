"""A program that sends one large argument to all of its nodes: ``spreading.py SHELL FANOUT TOPOLOGY BYTES HOST...``.

It prints the seconds from the submission until a task on each node had the argument, and the counts of bytes.
"""

from __future__ import annotations

import json
import sys
import time

from gristmill import Executor, on

import calls


def where(argument: bytes) -> tuple[str, int]:
    """Returns the name of the host, and the size of the argument."""
    import socket

    return socket.gethostname(), len(argument)


def main(shell: str, fanout: str, topology: str, size: str, *hosts: str) -> None:
    """Runs the program."""
    # Links drop packets of many connections at once: a node may be silent for longer than usual.
    import gristmill._nodes.opening

    gristmill._nodes.opening.EXPIRY_S = 20.0
    argument = bytes(int(size))
    blobs = on.Blobs(fanout=int(fanout), topology=topology)
    with Executor(nodes=on.ssh(hosts, shell=[shell], workers=1), blobs=blobs) as executor:
        while sum(node.workers for node in executor.nodes()) < len(hosts):
            executor.submit(calls.nothing).result()
        begun_at = time.monotonic()
        futures = [executor.submit(where, argument) for _ in hosts]
        found = [future.result() for future in futures]
        elapsed_s = time.monotonic() - begun_at
        assert {held for _, held in found} == {len(argument)}
        assert sorted(host for host, _ in found) == sorted(hosts), found
        stats = executor.stats()
        counts = {
            name: getattr(stats, f"blob_bytes_{name}") for name in ("named", "given", "fetched")
        }
        print(json.dumps({"elapsed_s": elapsed_s, **counts}))


if __name__ == "__main__":
    main(*sys.argv[1:])
