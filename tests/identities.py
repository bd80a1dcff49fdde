"""Tasks that read the identity of their process from ``multiprocessing``, which this module loads only where a task
uses it.
"""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any


def nothing() -> None:
    pass


def look(barrier: Any) -> dict[str, Any]:
    """Returns this worker's view of its own identity, once another worker takes part too."""
    import logging
    import multiprocessing

    barrier.wait(60)
    current, parent = multiprocessing.current_process(), multiprocessing.parent_process()
    record = logging.LogRecord("name", logging.INFO, "path", 1, "text", (), None)
    assert parent is not None
    return {
        "name": current.name,
        "record": record.processName,
        "pid": current.pid,
        "ident": os.getpid(),
        "daemon": current.daemon,
        "lives": current.is_alive(),
        "parent": parent.pid,
        "parent_name": parent.name,
        "parent_lives": parent.is_alive(),
    }


def name_and_parent() -> tuple[str, int | None]:
    import multiprocessing

    parent = multiprocessing.parent_process()
    return multiprocessing.current_process().name, parent and parent.pid


def record_name() -> str:
    """Returns the process name in a log record, and whether ``multiprocessing`` was loaded for it."""
    import logging

    names = []

    class Noting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            names.append(record.processName)

    logger = logging.getLogger("identities")
    logger.addHandler(Noting())
    logger.warning("text")
    return f"{names[0]} {'multiprocessing' in sys.modules}"


def use(queue: Any, table: Any) -> None:
    queue.put(7)
    table["key"] = 8


def use_below(queue: Any, table: Any) -> None:
    import gristmill

    # An executor that a task makes gives a warning.
    with warnings.catch_warnings(action="ignore"), gristmill.Executor(1) as executor:
        executor.submit(use, queue, table).result()
