"""Which GPUs the workers of a node are pinned to, whatever their tasks ask for: Parsl's ``available_accelerators``."""

from __future__ import annotations

import os

from gristmill._resources import DEVICE_VARIABLES, GPUS_MAX, gpu_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: The environment variable by which an agent tells its workers.
VARIABLE = "GRISTMILL_NODE_GPUS"
#: What begins a text that names GPUs, instead of saying how many.
_LIST = "list:"

#: The GPUs that this process sees if its task asks for none; empty: it is not pinned.
_own = ""
#: Those of all workers of its node.
offered: list[str] = []


def to_text(available: int | Sequence[str]) -> str | None:
    """How many GPUs, or their names, as an agent is told; ``None`` for none.

    Raises ``ValueError`` for what is neither.
    """
    if isinstance(available, int):
        if isinstance(available, bool) or available < 0:
            raise ValueError(f"available_accelerators must not be {available!r}: say how many")
        return str(available) if available else None
    if isinstance(available, str):
        raise ValueError(f"available_accelerators must be a list of names, not {available!r}")
    names = [str(name) for name in available]
    for name in names:
        if not name.strip() or ":" in name:
            raise ValueError(f"available_accelerators holds {name!r}, which is no name of a GPU")
    return _LIST + ":".join(names) if names else None


def count(available: int | Sequence[str]) -> int:
    """How many workers there are GPUs for; 0: workers are not pinned."""
    return available if isinstance(available, int) else len(available)


def sets(text: str, there: Sequence[str] | None = None) -> list[str]:
    """The GPU of each worker, or its GPUs with commas between: as many as are named, or the first of those ``there``.

    Where more are asked for than there are, neighbours share one. Raises ``ValueError``.
    """
    if text.startswith(_LIST):
        names = [name.strip() for name in text.removeprefix(_LIST).split(":")]
        if all(names):
            return names
    elif text.isdigit() and int(text):
        wanted, there = int(text), gpu_names() if there is None else there
        if not there:  # of a kind that nobody looks for
            return [str(number) for number in range(wanted)]
        if wanted <= len(there):
            return list(there[:wanted])
        return [there[number * len(there) // wanted] for number in range(wanted)]
    raise ValueError(f"{text!r} is neither a number of GPUs nor a list such as list:0:1")


def devices(of_workers: Sequence[str]) -> list[str]:
    """Each GPU that any worker is pinned to, once."""
    return list(dict.fromkeys(name for one in of_workers for name in one.split(",")))


def pins(of_workers: Sequence[str]) -> list[int]:
    """The places of each worker's GPUs among ``devices``, a bit each; more than can be told apart have none."""
    places = {name: place for place, name in enumerate(devices(of_workers)[:GPUS_MAX])}
    sets = [{places[name] for name in one.split(",") if name in places} for one in of_workers]
    return [sum(1 << place for place in one) for one in sets]


def pin(place: int) -> None:
    """Lets this process, the worker at that place, see its GPUs only, if the node's agent has said so."""
    # Programs that the worker starts are not meant.
    text = os.environ.pop(VARIABLE, None)
    if text is None:
        return
    global _own
    of_workers = text.split(":")
    _own = of_workers[place % len(of_workers)]
    offered[:] = devices(of_workers)
    restore()


def restore() -> None:
    """Lets a task that asks for no GPU see those of this process, if it is pinned."""
    if _own:
        os.environ.update(dict.fromkeys(DEVICE_VARIABLES, _own))
