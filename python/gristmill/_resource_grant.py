"""Settings by which the libraries and programs in a worker learn the GPUs and cores of its task or context.

A process keeps the GPUs that its libraries saw first, so the engine always gives it the same ones.
"""

from __future__ import annotations

import importlib
import os
import sys

from gristmill import _worker_environment
from gristmill._nodes import accelerators, affinity
from gristmill._resources import DEVICE_VARIABLES, visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: Devices that this process was given, by variable. Tasks of a pinned worker may ask for devices other than its own.
_given = {
    name: accelerators.offered or visible(os.environ.get(name, "")) for name in DEVICE_VARIABLES
}


def apply(devices: int, places: int, slots: Sequence[int]) -> None:
    """Lets the task, or the context's setup, see the given GPUs and use the cores of several workers.

    :param devices: the GPUs, one bit each.
    :param places: the number of CPU slots.
    :param slots: the CPU slots of a wide worker.
    """
    numbers = [number for number in range(devices.bit_length()) if devices >> number & 1]
    if numbers:
        for name, given in _given.items():
            names = [given[number] if number < len(given) else str(number) for number in numbers]
            os.environ[name] = ",".join(names)
    else:
        accelerators.restore()
    threads = _worker_environment.threads_of_worker() * places
    for name in _worker_environment.THREAD_VARIABLES:
        os.environ[name] = str(threads)
    if _worker_environment.has_threaded_libraries(sys.modules):
        importlib.import_module("threadpoolctl").threadpool_limits(threads)
    affinity.widen(slots, places)
