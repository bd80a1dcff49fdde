"""Pinning of a node's workers to GPUs, independent of what tasks request: Parsl's ``available_accelerators``."""

from __future__ import annotations

import os

from gristmill import _options
from gristmill._resources import DEVICE_VARIABLES, GPUS_MAX, gpu_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: The environment variable in which an agent passes the GPUs to its workers.
VARIABLE = "GRISTMILL_NODE_GPUS"
#: The prefix of a text that names GPUs instead of counting them.
_LIST = "list:"

#: The GPUs that this process sees if its task requests none. Empty if the process is not pinned.
_own = ""
#: The GPUs of all workers of this process's node.
offered: list[str] = []


def to_text(available: int | Sequence[str]) -> str | None:
    """Returns the number of GPUs or their names in the form that an agent reads; ``None`` for no GPUs.

    Raises ``ValueError`` if the argument is neither a number nor a list of names.
    """
    if isinstance(available, int):
        if isinstance(available, bool) or not 0 <= available <= _options.SHORT_MAX:
            given = _options.shown(available)
            raise ValueError(
                f"available_accelerators must be between 0 and {_options.SHORT_MAX}, not {given}"
            )
        return str(available) if available else None
    if not isinstance(available, (list, tuple)):
        given = _options.shown(available)
        raise ValueError(f"available_accelerators must be a list of names, not {given}")
    names = [str(name) for name in available]
    for name in names:
        if not name.strip() or ":" in name:
            raise ValueError(
                f"available_accelerators contains {name!r}, which is not the name of a GPU"
            )
    return _LIST + ":".join(names) if names else None


def count(available: int | Sequence[str]) -> int:
    """Returns the number of workers that get a GPU; 0 if workers are not pinned."""
    return available if isinstance(available, int) else len(available)


def sets(text: str, there: Sequence[str] | None = None) -> list[str]:
    """Returns the GPU of each worker, or its GPUs with commas between: all named GPUs, or the first of those ``there``.

    If the text asks for more GPUs than exist, neighbouring workers share one. Raises ``ValueError`` if the text is
    neither a number nor a list.
    """
    if text.startswith(_LIST):
        names = [name.strip() for name in text.removeprefix(_LIST).split(":")]
        if all(names):
            return names
    elif text.isdigit() and int(text):
        wanted, there = int(text), gpu_names() if there is None else there
        if not there:  # GPUs of a kind that Gristmill does not detect
            return [str(number) for number in range(wanted)]
        if wanted <= len(there):
            return list(there[:wanted])
        return [there[number * len(there) // wanted] for number in range(wanted)]
    raise ValueError(f"{text!r} is neither a number of GPUs nor a list such as list:0:1")


def devices(of_workers: Sequence[str]) -> list[str]:
    """Returns each GPU that any worker is pinned to, once."""
    return list(dict.fromkeys(name for one in of_workers for name in one.split(",")))


def pins(of_workers: Sequence[str]) -> list[int]:
    """Returns a bit mask of each worker's GPUs, by their indexes in ``devices``.

    Only the first ``GPUS_MAX`` devices have a bit.
    """
    places = {name: place for place, name in enumerate(devices(of_workers)[:GPUS_MAX])}
    sets = [{places[name] for name in one.split(",") if name in places} for one in of_workers]
    return [sum(1 << place for place in one) for one in sets]


def pin(place: int) -> None:
    """Restricts this process, the worker at index ``place``, to its GPUs if the node's agent pins workers."""
    # The variable is removed, so that programs that the worker starts do not inherit it.
    text = os.environ.pop(VARIABLE, None)
    if text is None:
        return
    global _own
    of_workers = text.split(":")
    _own = of_workers[place % len(of_workers)]
    offered[:] = devices(of_workers)
    restore()


def restore() -> None:
    """Makes the GPUs of this process visible to a task that requests none. Does nothing in an unpinned process."""
    if _own:
        os.environ.update(dict.fromkeys(DEVICE_VARIABLES, _own))
