"""Workers that are MPI processes: ``mpi4py.futures``, with mpi4py's own pool."""

from __future__ import annotations

import atexit
import functools
import importlib
import os
import shutil
import subprocess
import sys
import threading
from queue import SimpleQueue
from typing import Any, ClassVar

from gristmill_bench.dependencies import AfterParents
from gristmill_bench.errors import BenchError
from gristmill_bench.executors.base import put_first
from gristmill_bench.executors.groups import GroupedExecutor, Initializer
from gristmill_bench.interfaces import Backend

#: Program that loads the MPI library without initializing it.
_LOAD = "import mpi4py; mpi4py.rc.initialize = False; from mpi4py import MPI"
#: Seconds that loading may take.
_LOAD_S = 30.0
#: Settings of Open MPI 4 and 5 that allow more workers than cores.
_OVERSUBSCRIBE = {
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}


class Mpi(GroupedExecutor):
    """``mpi4py.futures.MPIPoolExecutor``, whose processes the MPI library spawns on this machine."""

    needs: ClassVar[tuple[str, ...]] = ("mpi4py",)

    @classmethod
    def missing(cls) -> str | None:
        """Returns why it cannot be used: no mpi4py, no MPI library, or no command that starts its processes."""
        return super().missing() or library_missing()

    def start_workers(self, initializer: Initializer | None) -> Backend:
        """Starts the processes. Raises ``BenchError`` if the library cannot."""
        for name, value in _OVERSUBSCRIBE.items():
            os.environ.setdefault(name, value)
        # The folder into which pip installs a library's commands.
        put_first("PATH", os.path.dirname(sys.executable))
        futures = importlib.import_module("mpi4py.futures")
        _finalize_last()
        executor = futures.MPIPoolExecutor(self.workers, initializer=initializer, main=False)
        _wait_for(executor, self.workers)
        return AfterParents(executor)


@functools.cache
def library_missing() -> str | None:
    """Returns why MPI cannot be used; asks another interpreter, because a loaded library stays loaded."""
    command = [sys.executable, "-c", _LOAD]
    try:
        asked = subprocess.run(command, capture_output=True, timeout=_LOAD_S, check=False)
    except subprocess.TimeoutExpired:
        return f"the MPI library cannot be loaded within {_LOAD_S:g} s"
    if asked.returncode != 0:
        return "mpi4py finds no MPI library: apt-get install openmpi-bin, or pip install mpich"
    beside = os.path.dirname(sys.executable)
    paths = os.pathsep.join([beside, os.environ.get("PATH", os.defpath)])
    if shutil.which("mpiexec", path=paths) is None:
        return "there is no mpiexec, which comes with what spawns: apt-get install openmpi-bin"
    return None


def _wait_for(executor: Any, workers: int) -> None:
    """Waits until the processes are there.

    mpi4py spawns them in a thread of its own. If that fails the thread ends, and a wait for the pool would never
    return.
    """
    outcomes: SimpleQueue[object] = SimpleQueue()
    before = threading.excepthook

    def note(failed: Any, /) -> None:
        before(failed)
        # Last, because the message of a failed run is the last line of its log.
        outcomes.put(failed.exc_value)

    threading.excepthook = note
    try:
        booting = threading.Thread(
            target=lambda: outcomes.put(executor.bootup(wait=True)), daemon=True
        )
        booting.start()
        outcome = outcomes.get()
    finally:
        threading.excepthook = before
    if isinstance(outcome, BaseException):
        raise BenchError(f"MPI has not spawned {workers} workers: {outcome}") from outcome


def _finalize_last() -> None:
    """Finalizes MPI when this program ends, after the pool; MPI keeps unneeded resources until then."""
    mpi = importlib.import_module("mpi4py.MPI")

    def finalize() -> None:
        if not mpi.Is_finalized():
            mpi.Finalize()

    atexit.register(finalize)
