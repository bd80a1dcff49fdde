"""The process that workers are forked from, and what a worker does before its first task.

Descriptors: 3 the keeper's socket, 4 the segment with the rings, 5 the arena for large payloads, 6 the event that the
client may sleep on, 7 the description of the caller's world, 8 that of the context, if it is to set one up: the word
``context`` is its last argument then. An interpreter started for one worker (``start="spawn"``, contexts with GPUs) has
the last ones at 3 to 7, its name as an argument, and what it has besides its place, if anything, as the next one.

All that this imports is on the way from a program's start to its first result, so it needs hardly more than what a bare
interpreter has.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
import time
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


#: What begins the argument that says what a worker has besides its place, before it sets its context up.
_EQUIPMENT = "equipment="
#: What the C library was told for this process only, if the program has told it nothing.
_HUGE_PAGES = "glibc.malloc.hugetlb=1"
#: Seconds by which the first result in a context may come later so that workers are forked, and end, in a tenth of the
#: time: these, and a share of what the setup took, up to a limit.
_HUGE_PAGES_MIN_S = 0.02
_HUGE_PAGES_SHARE = 0.2
_HUGE_PAGES_MAX_S = 0.5

#: Set by a node agent. Batch systems that end a job tell every process of it; there the agent decides.
_NODE = "GRISTMILL_NODE"


def main() -> None:
    """Serves a keeper until it hangs up, or runs as one worker if the command line names it."""
    cores = _native.cpu_count()
    names = sys.argv[2:]
    has_context = names[-1:] == ["context"]
    if has_context and os.environ.get("GLIBC_TUNABLES") == _HUGE_PAGES:
        del os.environ["GLIBC_TUNABLES"]
    if names and names[0] != "context":
        slot, epoch = map(int, names[0].split("."))
        description = _read_all(6)
        context = _take(7) if has_context else b""
        world = _world.enter(description, _is_bare(context))
        keeper = int(os.environ["GRISTMILL_KEEPER"])
        _native.become_a_worker(keeper, os.getppid(), None, [3, 4, 5, 6])
        _world.settle(world)
        if context:
            world["context"] = (context, description)
        if len(names) > 1 and names[1].startswith(_EQUIPMENT):
            world["equipment"] = _equipment_of(names[1])
        _work((slot, epoch), (3, 4, 5), world, cores, lambda: None)
    description = _read_all(7)
    context = _take(8) if has_context else b""
    world = _world.enter(description, _is_bare(context))
    if _NODE in os.environ:
        signal(SIGTERM, SIG_IGN)  # workers are forked deaf, and choose for themselves
    begun = time.monotonic()
    if context:
        _set_up(context, description)
    setup_seconds = time.monotonic() - begun
    _leave_if_threaded(world)
    _world.find_threaded_libraries()
    zygote = _native.Zygote(3)
    gc.collect()
    gc.freeze()
    if context:
        longest = min(_HUGE_PAGES_MIN_S + setup_seconds * _HUGE_PAGES_SHARE, _HUGE_PAGES_MAX_S)
        zygote.use_huge_pages(longest)
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
        _tear_down()
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
        if "equipment" in world:
            importlib.import_module("gristmill._equipment").equip(*world["equipment"])
        _native.serve(memory, slot, _spin_us(world, slot, cores), lambda: _initialize(world, tell))
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        _tear_down()
        _flush()
        os._exit(code)


def _equipment_of(argument: str) -> tuple[int, int, list[int]]:
    """The worker's GPUs, a bit each, how many places it fills, and the slots of these where they are named."""
    devices, places, slots = argument.removeprefix(_EQUIPMENT).split(":")
    return int(devices), max(int(places), 1), [int(slot) for slot in slots.split(",") if slot]


def _is_bare(context: bytes) -> bool:
    """Whether this process is to have packages of its own."""
    if not context:
        return False
    from gristmill._context import held

    return held.has_packages(context)


def _set_up(context: bytes, description: bytes) -> None:
    """Sets up a context in this process; ends it, with the traceback, if that fails."""
    from gristmill._context import held

    try:
        held.set_up(context, description)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        _flush()
        os._exit(_native.SETUP_EXIT_CODE)


def _tear_down() -> None:
    """Runs the rest of this process's setup, if it has a context whose setup has a rest."""
    held = sys.modules.get("gristmill._context.held")
    if held is None:
        return
    try:
        held.tear_down()
    except BaseException:
        sys.excepthook(*sys.exc_info())
    _flush()


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
    held = sys.modules.get("gristmill._context.held")
    also = ""
    if module:
        by = f"importing {module}, which preload names,"
    elif held is not None:
        by = f"the setup of context {held.name()!r}"
        also = ", each of which sets it up by itself"
    else:
        by = "what the interpreter loads by itself"
    warnings.warn(
        f"{by} started threads: workers cannot be forked beside them and are started as interpreters of their own, as "
        f'with start="spawn"{also}',
        RuntimeWarning,
        stacklevel=3,
    )
    _flush()


def _initialize(world: dict[str, Any], tell: Callable[[], None]) -> str | None:
    """Sets up the worker's own context and calls the initializer; gives the traceback of what was raised."""
    if "context" in world:
        from gristmill._context import held

        try:
            held.set_up(*world["context"])
        except BaseException:
            import traceback

            return f"the setup failed in a new worker:\n{traceback.format_exc()}"
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


def _take(descriptor: int) -> bytes:
    data = _read_all(descriptor)
    os.close(descriptor)
    return data
