"""Loop of a worker of the direct executor: a process of its own, which loads only this module of the suite."""

from __future__ import annotations

import importlib
from pickle import dumps
from typing import Any


def run_tasks(tasks: Any, results: Any) -> None:
    """Takes tasks from a queue and puts their results or errors into another; ends when it takes ``None``."""
    execute = importlib.import_module("parsl.executors.execute_task").execute_task
    serialize = importlib.import_module("parsl.serialize").serialize
    while (task := tasks.get()) is not None:
        number, packed = task
        try:
            is_error, value = False, serialize(execute(packed), buffer_threshold=1_000_000)
        except Exception as error:
            is_error, value = True, _error(error, serialize)
        results.put(dumps((number, is_error, value)))


def _error(error: Exception, serialize: Any) -> bytes:
    """Serializes an exception, or its text if the exception cannot be serialized."""
    try:
        sent: bytes = serialize(error)
    except Exception:
        sent = serialize(RuntimeError(f"{type(error).__name__}: {error}"))
    return sent
