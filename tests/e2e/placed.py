"""Programs of ours whose nodes other systems place: ``placed.py WHERE GATE [ARGUMENTS]``.

Each program occupies a given number of workers with tasks that wait at the gate, and submits short tasks behind them.
It prints the time until its first result. Once the gate is open it prints the sum of the short tasks and the hosts
where the waiting tasks have run.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from gristmill import Executor, on

import calls

#: Numbers that are summed, and tasks that wait at the gate.
SHORT, HELD = 500, 2


def hold(gate: str) -> str:
    """Waits at the gate; returns the name of the host."""
    import socket

    import calls

    calls.enter(gate)
    return socket.gethostname()


def slurm(walltime: str = "00:10:00", **blocks: Any) -> Any:
    """Returns a provider whose blocks are Slurm jobs."""
    providers = importlib.import_module("parsl.providers")
    launchers = importlib.import_module("parsl.launchers")
    environment = (
        f"export SLURM_CONF={os.environ['SLURM_CONF']} PYTHONPATH={os.environ['PYTHONPATH']}"
    )
    return providers.SlurmProvider(
        partition="debug",
        launcher=launchers.SrunLauncher(),
        walltime=walltime,
        worker_init=environment,
        **blocks,
    )


@contextmanager
def with_provider(nodes: str, blocks: str) -> Iterator[Callable[..., Any]]:
    """Yields the submit function of an executor on nodes of a provider."""
    place = on.provider(
        slurm(nodes_per_block=int(nodes), init_blocks=int(blocks), max_blocks=int(blocks) + 1),
        max_workers_per_node=1,
    )
    with with_placement(place) as submit:
        yield submit


@contextmanager
def with_placement(place: Any) -> Iterator[Callable[..., Any]]:
    """Yields the submit function of an executor on nodes of a placement."""
    with Executor(nodes=place) as executor:
        yield executor.options(loss_retries=2).submit


def with_ssh(shell: str, *hosts: str) -> Any:
    """Opens an executor on hosts that it reaches by a program with the arguments of ``ssh``."""
    return with_placement(on.ssh(hosts, shell=[shell], workers=1))


def with_mpi(*launcher: str) -> Any:
    """Opens an executor on the ranks of this launcher, or of the launcher that is found."""
    count = None if launcher else 2
    return with_placement(on.mpi(count, launcher=launcher or None, workers=1))


def with_ray(address: str) -> Any:
    """Opens an executor on the nodes of a Ray cluster."""
    return with_placement(on.ray(address, workers=1))


@contextmanager
def with_dask(address: str) -> Iterator[Callable[..., Any]]:
    """Yields the submit function of an executor on the workers of a Dask cluster."""
    with importlib.import_module("distributed").Client(address) as client:
        client.wait_for_workers(HELD)
        with with_placement(on.dask(client)) as submit:
            yield submit


@contextmanager
def with_kernel(module: str, nodes: str, blocks: str) -> Iterator[Callable[..., Any]]:
    """Yields a submit function of our executor under the kernel of a module, ``parsl`` or ``gristmill.parsl``."""
    parsl = importlib.import_module(module)
    executor = importlib.import_module("gristmill.parsl").GristmillExecutor(
        provider=slurm(nodes_per_block=int(nodes), init_blocks=int(blocks), max_blocks=int(blocks)),
        max_workers_per_node=1,
        loss_retries=2,
    )
    with parsl.load(parsl.Config(executors=[executor])):
        yield lambda function, *arguments: parsl.python_app(function)(*arguments)


def broken() -> None:
    """Prints the error of a task whose jobs all fail."""
    provider = slurm(nodes_per_block=1, init_blocks=1, max_blocks=1)
    provider.worker_init += "\necho this is why >&2; exit 3\n"
    with Executor(nodes=on.provider(provider)) as executor:
        error = executor.submit(calls.nothing).exception()
        print(f"{type(error).__name__}: {error}")


def main(where: str, gate: str, *arguments: str) -> None:
    """Runs the program."""
    if where == "broken":
        return broken()
    ways: dict[str, Any] = {
        "provider": with_provider,
        "kernel": with_kernel,
        "ssh": with_ssh,
        "mpi": with_mpi,
        "ray": with_ray,
        "dask": with_dask,
    }
    begun_at = time.monotonic()
    with ways[where](*arguments) as submit:
        submit(calls.nothing).result()
        print(f"first result after {time.monotonic() - begun_at:.2f} s", flush=True)
        held = [submit(hold, gate) for _ in range(HELD)]
        short = [submit(calls.same, number) for number in range(SHORT)]
        print("sum", sum(future.result() for future in short), flush=True)
        print("on", *sorted(future.result() for future in held), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
