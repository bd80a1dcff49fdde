"""A program whose context has an environment and a file that its nodes lack: ``outfitting.py SHELL ENVIRONMENT FILE
HOST...``.

It prints for each node where the environment and the file were, and then the counts of bytes.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import gristmill
from gristmill import Context, Executor, on

import calls


def load() -> dict[str, Any]:
    """Provides the locations of the package and of the file, and their contents."""
    import socket

    import husk  # type: ignore[import-not-found] # the environment has it

    path = gristmill.context_file("weights")
    with open(path, "rb") as file:
        size = len(file.read())
    return {"found": [socket.gethostname(), husk.__file__, path, size]}


def main(shell: str, environment: str, file: str, *hosts: str) -> None:
    """Runs the program."""
    # Links drop packets of many connections at once: a node may be silent for longer than usual.
    import gristmill._nodes.opening

    gristmill._nodes.opening.EXPIRY_S = 20.0
    context = Context(load, environment=environment, files={"weights": file})
    with Executor(nodes=on.ssh(hosts, shell=[shell], workers=1)) as executor:
        while sum(node.workers for node in executor.nodes()) < len(hosts):
            executor.submit(calls.nothing).result()
        run = executor.options(context=context).submit
        gate = os.path.abspath("gate")
        os.mkfifo(gate)
        opened = os.open(gate, os.O_RDWR)

        def wait_and_tell() -> Any:
            with open(gate, "rb", buffering=0) as held:
                held.read(1)
            return context["found"]

        futures = [run(wait_and_tell) for _ in hosts]
        while context.report(executor).deployments < len(hosts):  # type: ignore[union-attr]
            time.sleep(0.001)
        os.write(opened, b"." * len(hosts))
        found = [future.result() for future in futures]
        stats = executor.stats()
        counts = {name: getattr(stats, f"blob_bytes_{name}") for name in ("given", "fetched")}
        print(json.dumps({"found": found, **counts}))


if __name__ == "__main__":
    main(*sys.argv[1:])
