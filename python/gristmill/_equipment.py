"""What a worker tells the libraries and programs in it of the GPUs and cores that its task has, or its context.

A process keeps the GPUs that its libraries saw first: the engine gives it the same ones ever after.
"""

from __future__ import annotations

import importlib
import os
import sys

from gristmill import _world
from gristmill._nodes import accelerators, affinity
from gristmill._resources import DEVICE_VARIABLES, visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: What this process was given, by variable; a pinned worker's tasks may ask for others than it is pinned to.
_given = {
    name: accelerators.offered or visible(os.environ.get(name, "")) for name in DEVICE_VARIABLES
}


def equip(devices: int, places: int, slots: Sequence[int]) -> None:
    """Lets the task, or the context's setup, see these GPUs, a bit each, and use the cores of so many workers.

    :param slots: those of a wide one.
    """
    numbers = [number for number in range(devices.bit_length()) if devices >> number & 1]
    if numbers:
        for name, given in _given.items():
            names = [given[number] if number < len(given) else str(number) for number in numbers]
            os.environ[name] = ",".join(names)
    else:
        accelerators.restore()
    threads = _world.threads_of_worker() * places
    for name in _world.THREAD_VARIABLES:
        os.environ[name] = str(threads)
    if _world.has_threaded_libraries(sys.modules):
        importlib.import_module("threadpoolctl").threadpool_limits(threads)
    affinity.widen(slots, places)
