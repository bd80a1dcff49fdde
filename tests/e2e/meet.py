"""Programs of other engines that run a task on each of two nodes, and print the hosts: ``meet.py ENGINE [ADDRESS]``."""

from __future__ import annotations

import importlib
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

COUNT = 2


def meet(folder: str, count: int) -> str:
    """Returns the host's name once this many tasks have begun in the folder, so that no worker runs two of them."""
    import os
    import socket
    import time

    name = socket.gethostname()
    open(f"{folder}/{name}", "w").close()
    while len(os.listdir(folder)) < count:
        time.sleep(0.01)
    return name


def with_parsl(folder: str) -> list[str]:
    """Runs the tasks in a Slurm pilot job on two nodes, with one worker on each."""
    parsl: Any = importlib.import_module("parsl")
    provider = importlib.import_module("parsl.providers").SlurmProvider(
        partition="debug",
        nodes_per_block=COUNT,
        walltime="00:05:00",
        exclusive=False,
        launcher=importlib.import_module("parsl.launchers").SrunLauncher(),
        worker_init=f"export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH SLURM_CONF={os.environ['SLURM_CONF']}",
    )
    executor = parsl.HighThroughputExecutor(
        label="nodes", provider=provider, address="10.77.0.254", max_workers_per_node=1
    )
    app = parsl.python_app(meet)
    with parsl.load(parsl.Config(executors=[executor], usage_tracking=0)):
        futures = [app(folder, COUNT) for _ in range(COUNT)]
        return [future.result() for future in futures]


def with_dask(folder: str, address: str) -> list[str]:
    """Runs the tasks on Dask's workers."""
    distributed: Any = importlib.import_module("distributed")
    with distributed.Client(address) as client:
        client.wait_for_workers(COUNT)
        futures = [client.submit(meet, folder, COUNT, pure=False) for _ in range(COUNT)]
        return [future.result() for future in futures]


def with_ray(folder: str, address: str) -> list[str]:
    """Runs the tasks on Ray's workers."""
    ray: Any = importlib.import_module("ray")
    ray.init(address=address, log_to_driver=False, logging_level="error")
    task = ray.remote(meet)
    names: list[str] = ray.get([task.remote(folder, COUNT) for _ in range(COUNT)])
    ray.shutdown()
    return names


def main(engine: str, *address: str) -> None:
    """Runs the engine's program."""
    folder = Path("begun").absolute()
    folder.mkdir()
    programs: dict[str, Callable[..., list[str]]]
    programs = {"parsl": with_parsl, "dask": with_dask, "ray": with_ray}
    print(*sorted(programs[engine](str(folder), *address)))


if __name__ == "__main__":
    main(*sys.argv[1:])
