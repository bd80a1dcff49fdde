"""The process that workers are forked from, and the start of a worker up to its first task.

Descriptors: 3 the keeper's socket, 4 the segment with the rings, 5 the arena for large payloads, 6 its file on disk, 7
the event that the client may sleep on, 8 the description of the worker environment, 9 the file in which a zygote
records what it loads, 10 the description of the context, if the zygote sets one up: its last argument is then the word
``context``. An interpreter started for one worker (``start="spawn"``, and contexts with GPUs) has those from 4 to 8 at
3 to 7, and that of the context at 8. Its name is an argument, and the next one is its resource grant besides its CPU
slot, if any.

All that this module imports is on the way from a program's start to its first result, so it needs hardly more than a
bare interpreter has.
"""

from __future__ import annotations

import _frozen_importlib
import gc
import os
import sys
import time

# The module `signal` only adds enumerations to this one.
from _signal import signal  # type: ignore[import-not-found]

from gristmill import (
    _ending,
    _forked,
    _identity,
    _job_signals,
    _loading,
    _native,
    _output,
    _threads,
    _worker_environment,
)
from gristmill import _functions as _functions  # needed by every worker, so loaded before the fork
from gristmill import _remote as _remote
from gristmill._interrupt import TaskInterrupted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType
    from typing import Any, NoReturn


#: Modules that many tasks need (functions and arguments by value, exceptions, tasks that submit tasks), in steps of
#: some 5 ms.
_OFTEN_NEEDED = (
    "logging",
    "typing",
    "dataclasses",
    "cloudpickle",
    "gristmill._pickling",
    "gristmill._remote",
    "gristmill._nested",
)


#: Prefix of the argument with a worker's resource grant besides its CPU slot, before it sets its context up.
_GRANT = "grant="
#: Setting of the C library for this process only, if the program has set none.
_HUGE_PAGES = "glibc.malloc.hugetlb=1"
#: Seconds by which the first result in a context may be delayed so that workers fork and end in a tenth of the time:
#: this minimum, and a share of the setup's duration, up to a limit.
_HUGE_PAGES_MIN_S = 0.02
_HUGE_PAGES_SHARE = 0.2
_HUGE_PAGES_MAX_S = 0.5

#: The file name of Python's import system, as in its code.
_IMPORT = _frozen_importlib._find_and_load.__code__.co_filename  # type: ignore[attr-defined]

#: The variable that holds which task of which worker started a process.
_TASK = b"GRISTMILL_TASK"


def main() -> None:
    """Serves a keeper until it hangs up, or runs as one worker if the command line names one."""
    _job_signals.leave_to_program()
    _output.adopt()
    cores = _native.cpu_count()
    names = sys.argv[1:]
    has_context = names[-1:] == ["context"]
    if has_context and os.environ.get("GLIBC_TUNABLES") == _HUGE_PAGES:
        del os.environ["GLIBC_TUNABLES"]
    if names and names[0] != "context":
        slot, epoch = map(int, names[0].split("."))
        description = _read_all(7)
        context = _take(8) if has_context else b""
        environment = _forked.guarded(_worker_environment.enter, description, _is_bare(context))
        keeper = int(os.environ["GRISTMILL_KEEPER"])
        _native.become_a_worker(keeper, os.getppid(), None, [3, 4, 5, 6, 7])
        _worker_environment.settle(environment)
        environment["is_own"] = True
        if context:
            environment["context"] = (context, description)
        if len(names) > 1 and names[1].startswith(_GRANT):
            environment["grant"] = _grant_of(names[1])
        _work((slot, epoch), (3, 4, 5, 6), environment, cores, lambda: None)
    description = _read_all(8)
    context = _take(10) if has_context else b""
    _loading.note_in(9)
    environment = _forked.guarded(_worker_environment.enter, description, _is_bare(context))
    threads_by = _preload(environment)
    begun = time.monotonic()
    if context:
        _set_up(context, description)
    setup_seconds = time.monotonic() - begun
    _loading.stop_noting()
    _leave_if_threaded(threads_by)
    _worker_environment.find_threaded_libraries()
    zygote = _native.Zygote(3)
    if context or environment["preload"] or environment["needs_pickling"]:
        # A collection costs more than the garbage of a bare interpreter.
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
            lambda: _begin(environment),
            lambda: _warm_up(modules),
            _threads.are_running,
        )
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(1)
    if worker is None:
        _tear_down()
        _end()
        os._exit(0)
    _work(worker, (4, 5, 6, 7), environment, cores, zygote.at_work)


def _warm_up(modules: Iterator[str]) -> bool:
    """Loads the next module. Returns ``False`` when none is left.

    Loads one module at a time, because a worker may be requested meanwhile.
    """
    module = next(modules, None)
    if module is None:
        gc.collect()
        gc.freeze()
        return False
    try:
        __import__(module)
    except Exception:  # the code that needs it reports it
        return True
    return True


def _work(
    worker: tuple[int, int],
    memory: tuple[int, int, int, int],
    environment: dict[str, Any],
    cores: int,
    tell: Callable[[], None],
) -> NoReturn:
    """Runs tasks until told to stop. Never returns. Calls ``tell`` once the initializer has returned."""
    code = 1
    slot, epoch = worker
    try:
        os.environ["GRISTMILL_WORKER"] = f"{slot}.{epoch}.{os.environ.get('GRISTMILL_TREE', '')}"
        _identity.adopt(environment["key"])
        signal(_native.INTERRUPT_SIGNAL, _on_interrupt)
        _bind(slot)
        _loading.watch()
        if "grant" in environment:
            from gristmill import _resource_grant

            _resource_grant.apply(*environment["grant"])
        spin_us = _spin_us(environment, slot, cores)
        _native.serve(memory, worker, spin_us, _own_mark(), lambda: _initialize(environment, tell))
        code = 0
        if _ending.lasts() or _has_rest():
            # Others need not wait for the CPU slot.
            _native.tell_left()
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        _tear_down()
        _end()
        os._exit(code)


def _own_mark() -> bytes | None:
    """Returns the mark of this worker's tasks in ``os.environ``, as an object of its own, which the worker writes to.

    Python reads the environment once, so a program that is given a copy of ``os.environ`` would otherwise lack the
    mark.
    """
    copies = getattr(os.environ, "_data", {})
    mark = copies.get(_TASK)
    if type(mark) is not bytes:
        return None
    mark = copies[_TASK] = bytes(bytearray(mark))
    return mark


def _grant_of(argument: str) -> tuple[int, int, list[int]]:
    """Returns the worker's GPUs, one bit each, the number of its CPU slots, and these slots if they are named."""
    devices, places, slots = argument.removeprefix(_GRANT).split(":")
    return int(devices), max(int(places), 1), [int(slot) for slot in slots.split(",") if slot]


def _is_bare(context: bytes) -> bool:
    """Returns whether this process gets packages of its own."""
    if not context:
        return False
    from gristmill._context import held

    return held.has_packages(context)


def _preload(environment: dict[str, Any]) -> str | None:
    """Imports what the caller wants preloaded. Returns the name of the first module that started threads, if any."""
    try:
        return _forked.guarded(_worker_environment.preload, environment)
    except SystemExit:
        # Reported like any other exception: with a traceback, which names the module.
        sys.excepthook(*sys.exc_info())
        _flush()
        os._exit(1)


def _set_up(context: bytes, description: bytes) -> None:
    """Sets up a context in this process. If that fails, prints the traceback and ends the process."""
    from gristmill._context import held

    try:
        _forked.guarded(held.set_up, context, description)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        _flush()
        os._exit(_native.SETUP_EXIT_CODE)


def _tear_down() -> None:
    """Runs the part of the context's setup behind its ``yield``, if this process has one."""
    held = sys.modules.get("gristmill._context.held")
    if held is None:
        return
    try:
        _forked.guarded(held.tear_down)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    _flush()


def _has_rest() -> bool:
    held = sys.modules.get("gristmill._context.held")
    return held is not None and held.has_rest()


def _begin(environment: dict[str, Any]) -> None:
    """Prepares a process that was forked from the zygote for its own work."""
    _ending.forget_inherited()
    _worker_environment.settle(environment)


def _end() -> None:
    """Runs the exit handlers of this process."""
    try:
        _forked.guarded(_ending.run)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    _flush()


def _bind(slot: int) -> None:
    """Binds this process to the cores and GPUs of its CPU slot, if the environment names them."""
    # One for each slot: the first is not the node's first if other leases run there. Programs that the worker starts
    # must not inherit it.
    places = [
        int(place) for place in os.environ.pop("GRISTMILL_NODE_PLACES", "").split(",") if place
    ]
    if "GRISTMILL_NODE_CORES" in os.environ:
        from gristmill._nodes import affinity

        affinity.bind(slot, places)
    if "GRISTMILL_NODE_GPUS" in os.environ:
        place = places[slot % len(places)] if places else slot
        from gristmill._nodes import accelerators

        accelerators.pin(place)


def _spin_us(environment: dict[str, Any], slot: int, cores: int) -> float | None:
    """Returns the polling time of a worker, microseconds; ``None`` if there is only one core."""
    if cores == 1:
        return None
    # A polling caller has a core of its own, so no more workers poll beside it than there are other cores.
    spin_us: float = environment["spin_us"] if slot < cores - 1 else 0.0
    return spin_us


def _leave_if_threaded(module: str | None) -> None:
    """Ends this process if it cannot fork. The process that requested workers starts them in another way.

    ``module`` is the module of ``preload`` that has started threads, if any.
    """
    if not _threads.are_running():
        return
    # Warned about once: workers cannot be started beside these threads later either.
    _warn_of_threads(module)
    os._exit(_native.THREADED_EXIT_CODE)


def _warn_of_threads(module: str | None) -> None:
    """Warns that workers are started in another way than requested, with the reason. Raises if warnings are errors."""
    import warnings

    held = sys.modules.get("gristmill._context.held")
    also = ""
    if module:
        by = f"importing {module}, which preload names,"
    elif held is not None:
        by = f"the setup of context {held.name()!r}"
        also = ", each of which sets it up by itself"
    else:
        by = "modules that the interpreter loads by itself"
    warnings.warn(
        f"{by} started threads: workers cannot be forked beside them and are started as interpreters of their own, as "
        f'with start="spawn"{also}',
        RuntimeWarning,
        stacklevel=3,
    )
    _flush()


def _initialize(environment: dict[str, Any], tell: Callable[[], None]) -> str | None:
    """Runs the preload of a separate interpreter, the setup of the worker's own context, and the initializer.

    Returns the traceback of an exception, or ``None``.
    """
    step = ""
    try:
        if "is_own" in environment:
            step = "importing the modules of preload"
            _forked.guarded(_worker_environment.preload, environment)
            _worker_environment.settle_libraries()
        if "context" in environment:
            step = "the setup"
            from gristmill._context import held

            _forked.guarded(held.set_up, *environment["context"])
        if environment["initializer"] is not None:
            step = "the initializer"
            _forked.guarded(_call_initializer, environment)
    except BaseException:
        import traceback

        return f"{step} failed in a new worker:\n{traceback.format_exc()}"
    tell()
    return None


def _call_initializer(environment: dict[str, Any]) -> None:
    """Calls the initializer. If it takes longer than the caller allows, or crashes, this process ends."""
    from gristmill import _steps, _unpickling

    with _steps.Step(environment["start_timeout"]), _loading.Run("running the initializer"):
        function, arguments = _unpickling.load(environment["initializer"], {})
        function(*arguments)


def _on_interrupt(_signal: int, frame: FrameType | None) -> None:
    if _native.is_interrupted():
        if _imports(frame):
            # An extension module cannot be imported again after its import was cut off.
            _native.loading_interrupted()
        raise TaskInterrupted("the task was cancelled, or its time was over")


def _imports(frame: FrameType | None) -> bool:
    """Returns whether a frame is part of the import of a module."""
    while frame is not None:
        if frame.f_code.co_filename == _IMPORT:
            return True
        frame = frame.f_back
    return False


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
