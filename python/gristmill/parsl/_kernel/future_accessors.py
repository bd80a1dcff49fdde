"""``future[key]`` and ``future.name``: tasks that extract a part of a value, run in the submitting process.

Their functions have the names of Parsl's: programs see them in records, logs and the monitoring database.
"""

from __future__ import annotations

from typing import Any

from gristmill.parsl._kernel.apps import python_app


def item_of(future: Any, key: Any) -> Any:
    """Returns the future of ``future.result()[key]``."""
    return _app(deferred_getitem, future)(future, key)


def attribute_of(future: Any, name: str) -> Any:
    """Returns the future of ``future.result().name``."""
    return _app(deferred_getattr, future)(future, name)


def _app(function: Any, future: Any) -> Any:
    # The task's own kernel, which need not be the loaded one.
    kernel = future._kernel
    return python_app(function, data_flow_kernel=kernel, executors=["_parsl_internal"])


def deferred_getitem(value: Any, key: Any) -> Any:
    return value[key]


def deferred_getattr(value: Any, name: str) -> Any:
    return getattr(value, name)
