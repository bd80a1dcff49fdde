"""The process that workers are forked from, and what a worker does before its first task.

Descriptors: 3 the keeper's socket, 4 the segment with the rings, 5 the arena for large payloads, 6 the event that the
client may sleep on, 7 the description of the caller's world. An interpreter started for one worker (``start="spawn"``)
has the last four at 3 to 6, and its name as the last argument.

All that this imports is on the way from a program's start to its first result, so it needs hardly more than what a bare
interpreter has.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
import warnings

# The module `signal` is enumerations around this one.
from _signal import SIG_IGN, SIGTERM, signal  # type: ignore[import-not-found]

from gristmill import _functions as _functions  # needed by every worker, so loaded before the fork
from gristmill import _native, _threads, _world
from gristmill._interrupt import TaskInterrupted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, NoReturn


#: What many tasks need (functions and arguments by value, exceptions, tasks that submit tasks), in steps of some 5 ms.
_OFTEN_NEEDED = (
    "logging",
    "typing",
    "dataclasses",
    "cloudpickle",
    "gristmill._pickling",
    "gristmill._remote",
    "gristmill._nested",
)


#: Set by a node agent. Batch systems that end a job tell every process of it; there the agent decides.
_NODE = "GRISTMILL_NODE"


def main() -> None:
    """Serves a keeper until it hangs up, or runs as one worker if the command line names it."""
    cores = _native.cpu_count()
    if len(sys.argv) > 2:
        slot, epoch = map(int, sys.argv[2].split("."))
        world = _world.enter(_read_all(6))
        keeper = int(os.environ["GRISTMILL_KEEPER"])
        _native.become_a_worker(keeper, os.getppid(), None, [3, 4, 5, 6])
        _world.settle(world)
        _work((slot, epoch), (3, 4, 5), world, cores, lambda: None)
    world = _world.enter(_read_all(7))
    if _NODE in os.environ:
        signal(SIGTERM, SIG_IGN)  # workers are forked deaf, and choose for themselves
    _leave_if_threaded(world)
    zygote = _native.Zygote(3)
    gc.collect()
    gc.freeze()
    zygote.announce()
    worker = None
    try:
        modules = iter(_OFTEN_NEEDED)
        worker = zygote.serve(
            lambda: _world.settle(world),
            lambda: _warm_up(modules),
            _threads.are_running,
        )
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(1)
    if worker is None:
        os._exit(0)
    _work(worker, (4, 5, 6), world, cores, zygote.at_work)


def _warm_up(modules: Iterator[str]) -> bool:
    """Loads the next module; false when none is left. One at a time, because a worker may be asked for meanwhile."""
    module = next(modules, None)
    if module is None:
        gc.collect()
        gc.freeze()
        return False
    try:
        importlib.import_module(module)
    except Exception:  # whoever needs it will say so
        return True
    return True


def _work(
    worker: tuple[int, int],
    memory: tuple[int, int, int],
    world: dict[str, Any],
    cores: int,
    tell: Callable[[], None],
) -> NoReturn:
    """Runs tasks until told to stop; never returns. ``tell`` is called once the initializer has returned."""
    code = 1
    slot, epoch = worker
    try:
        os.environ["GRISTMILL_WORKER"] = f"{slot}.{epoch}.{os.environ.get('GRISTMILL_TREE', '')}"
        signal(_native.INTERRUPT_SIGNAL, _on_interrupt)
        if _NODE in os.environ:
            _native.outlast_end()
        _bind(slot)
        _native.serve(memory, slot, _spin_us(world, slot, cores), lambda: _initialize(world, tell))
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        _flush()
        os._exit(code)


def _bind(slot: int) -> None:
    """Binds this process to the cores and GPUs of its place, if somebody has said which these are."""
    # One for each slot: the first is not the node's first where others have leases too. Programs that the worker starts
    # are not meant.
    places = [
        int(place) for place in os.environ.pop("GRISTMILL_NODE_PLACES", "").split(",") if place
    ]
    if "GRISTMILL_NODE_CORES" in os.environ:
        importlib.import_module("gristmill._nodes.affinity").bind(slot, places)
    if "GRISTMILL_NODE_GPUS" in os.environ:
        place = places[slot % len(places)] if places else slot
        importlib.import_module("gristmill._nodes.accelerators").pin(place)


def _spin_us(world: dict[str, Any], slot: int, cores: int) -> float | None:
    """How long a worker polls; ``None`` where there is only one core."""
    if cores == 1:
        return None
    # A polling caller has a core of its own: the workers that poll beside it are no more than the other cores.
    spin_us: float = world["spin_us"] if slot < cores - 1 else 0.0
    return spin_us


def _leave_if_threaded(world: dict[str, Any]) -> None:
    """Ends this process if it cannot fork; whoever asked for workers starts them in another way."""
    if not _threads.are_running():
        return
    # Once is enough: workers cannot be started beside these threads later either.
    _warn_of_threads(world)
    os._exit(_native.THREADED_EXIT_CODE)


def _warn_of_threads(world: dict[str, Any]) -> None:
    """Says why workers are started in another way than was asked for. Raises where warnings are errors."""
    module = world["threads_by"]
    by = (
        f"importing {module}, which preload names,"
        if module
        else "what the interpreter loads by itself"
    )
    warnings.warn(
        f"{by} started threads: workers cannot be forked beside them and are started as interpreters of their own, as "
        'with start="spawn"',
        RuntimeWarning,
        stacklevel=3,
    )
    _flush()


def _initialize(world: dict[str, Any], tell: Callable[[], None]) -> str | None:
    """Calls the initializer; gives the traceback of what it raised."""
    if world["initializer"] is not None:
        from gristmill import _unpickling

        try:
            function, arguments = _unpickling.load(world["initializer"], {})
            function(*arguments)
        except BaseException:
            import traceback

            return f"the initializer failed in a new worker:\n{traceback.format_exc()}"
    tell()
    return None


def _on_interrupt(_signal: int, _frame: object) -> None:
    if _native.is_interrupted():
        raise TaskInterrupted("the task was cancelled or ran out of time")


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:  # noqa: SIM105 - contextlib is not worth loading
            stream.flush()
        except Exception:
            pass


def _read_all(descriptor: int) -> bytes:
    size = os.fstat(descriptor).st_size
    return os.pread(descriptor, size, 0)
