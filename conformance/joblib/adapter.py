"""Pytest plugin that makes joblib's backend "loky" use our executor instead of loky's.

joblib gets its executor from one function. It submits to the executor, reuses it, ends it, and checks whether it has
ended.
"""

from __future__ import annotations

from concurrent.futures import CancelledError
from pickle import PicklingError
from types import SimpleNamespace
from typing import Any

import joblib._parallel_backends as backends
import prepared

import gristmill

_reused: dict[tuple[Any, ...], Workers] = {}


class Workers:
    """Part of an executor's interface that joblib uses."""

    def __init__(self, key: tuple[Any, ...], count: int, **options: Any) -> None:
        self._key = key
        self._executor = gristmill.Executor(count, **options)
        self._max_workers = count
        self._temp_folder_manager = SimpleNamespace(
            _clean_temporary_resources=_nothing, set_current_context=_nothing
        )

    def submit(self, function: Any) -> Any:
        """Runs a batch of calls. Returns its future. Raises loky's error for one that cannot be pickled."""
        try:
            return self._executor.submit(function)
        except gristmill.UnpicklableError as error:
            raise PicklingError("Could not pickle the task to send to the workers.") from error

    def terminate(self, kill_workers: bool = False) -> None:
        """Ends the executor without waiting for running tasks; the next call of joblib makes another one."""
        _reused.pop(self._key, None)
        executor = self._executor
        executor.shutdown(wait=False, cancel_futures=True)


def _nothing(*_arguments: Any, **_named: Any) -> None:
    pass


def executor_of(
    n_jobs: int,
    timeout: float = 300,
    initializer: Any = None,
    initargs: tuple[Any, ...] = (),
    env: dict[str, str] | None = None,
    temp_folder: Any = None,
    context_id: Any = None,
    **_memory_maps: Any,
) -> Workers:
    """Replaces ``get_memmapping_executor``. Arrays travel through our arena instead of files."""
    environment = env or {}
    key = (n_jobs, initializer, initargs, tuple(sorted(environment.items())))
    if key not in _reused:
        options: dict[str, Any] = {
            "threads_per_worker": int(environment.get("OMP_NUM_THREADS", 1)),
            "initializer": prepared.prepare,
            "initargs": (environment, initializer, *initargs),
        }
        _reused[key] = Workers(key, n_jobs, **options)
    return _reused[key]


backends.get_memmapping_executor = executor_of
# Exception that joblib expects from calls of an executor that it ended: ours cancels these calls.
backends.ShutdownExecutorError = CancelledError
