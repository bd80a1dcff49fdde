"""Trials of the engine in real use."""

from __future__ import annotations

import importlib.metadata
import shutil
import time

from gristmill._doctor.findings import Finding, bad, note, ok

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

#: The number of calls that are timed.
_CALLS = 200
#: The longest wait for a result, seconds.
_LIMIT_S = 30.0
#: Programs that place agents, and packages that are used beside the engine.
_PROGRAMS = ("ssh", "srun", "sbatch", "qsub", "mpiexec")
_PACKAGES = ("cloudpickle", "threadpoolctl", "numpy", "parsl", "ray", "distributed")


def here() -> Iterator[Finding]:
    """Tries an executor of this machine."""
    yield _try("executor", {})


def node() -> Iterator[Finding]:
    """Tries a node agent on this machine."""
    from gristmill import on

    yield _try("node agent", {"nodes": on.local(1, 1)})


def _try(what: str, options: dict[str, Any]) -> Finding:
    import gristmill

    began = time.perf_counter()
    executor = gristmill.Executor(1, **options)
    try:
        executor.submit(int).result(timeout=_LIMIT_S)
        first_s = time.perf_counter() - began
        times = sorted(_timed(executor) for _ in range(_CALLS))
    except Exception as error:
        return bad(what, f"{type(error).__name__}: {error}")
    finally:
        executor.shutdown(cancel_futures=True)
    middle_us = times[_CALLS // 2] * 1e6
    return ok(what, f"first result after {first_s * 1e3:.0f} ms, a call takes {middle_us:.0f} us")


def _timed(executor: Any) -> float:
    began = time.perf_counter()
    executor.submit(int).result()
    return time.perf_counter() - began


def surroundings() -> Iterator[Finding]:
    """Reports the programs that can place agents, and the packages that are used beside the engine."""
    found = [name for name in _PROGRAMS if shutil.which(name)]
    yield ok("programs", ", ".join(found) or "none of " + ", ".join(_PROGRAMS))
    for name in _PACKAGES:
        try:
            yield ok(name, importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            yield note(name, "is not installed")
