"""Tasks about the libraries of their worker. They are not in a test's module, which workers would import with all it needs."""

from __future__ import annotations

from typing import Any

import gristmill


def note_sizes() -> None:
    """Makes this worker note the sizes of the definitions that it loads."""
    from gristmill import _functions

    load, sizes = _functions.load, []

    def noted(data: bytes, is_retry: bool = False) -> Any:
        sizes.append(len(data))
        return load(data, is_retry)

    noted.sizes = sizes  # type: ignore[attr-defined]
    _functions.load = noted


def noted_sizes() -> list[int]:
    """Returns the sizes, bytes."""
    from gristmill import _functions

    return list(_functions.load.sizes)  # type: ignore[attr-defined]


def in_nested_tasks(function: Any, data: bytes) -> list[bytes]:
    """Runs a function of a library in tasks of this task, by itself and captured."""
    submit = gristmill.current_executor().submit
    futures = [submit(function, data), submit(lambda data: function(data) + b"!", data)]
    return [future.result() for future in futures]


def resident_kib() -> int:
    """Returns the memory of this process that it shares with no other, in KiB."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon"))
