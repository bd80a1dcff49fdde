"""Open MPI on a cluster: options that tell its ``mpiexec`` the nodes, and the shell that reaches them."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from cluster.apart import missing

_ENTER = Path(__file__).with_name("enter.py")
#: The two settings with which Open MPI allows root to run it.
ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def openmpi_hindrance() -> str | None:
    """Returns how to install Open MPI; ``None`` if it is there."""
    install = missing({"mpiexec": "openmpi-bin"})
    return f"Open MPI is missing: {install}" if install else None


def write_shell(path: Path, doors: Path) -> None:
    """Writes a program that is called like ``ssh``, with a host and a command, and needs no server on the host."""
    enter = shlex.join([sys.executable, "-I", "-S", str(_ENTER)])
    path.write_text(f'#!/bin/sh\nhost=$1\nshift\nexec {enter} {doors}/"$host" - sh -c "$*"\n')
    path.chmod(0o755)


def mpiexec(shell: Path, network: str, hosts: Sequence[str], per_host: int) -> list[str]:
    """Returns the beginning of a command that runs the rest of it on the hosts."""
    settings = {
        "plm_rsh_agent": str(shell),
        "oob_tcp_if_include": network,
        "btl_tcp_if_include": network,
    }
    options = [word for name, value in settings.items() for word in ("--mca", name, value)]
    # Each node takes all cores for its own and would bind its first process to the first of them.
    options += ["--bind-to", "none"]
    places = ",".join(f"{host}:{per_host}" for host in hosts)
    return ["mpiexec", *options, "--host", places, "-np", str(per_host * len(hosts))]
