"""The executor: ``concurrent.futures.Executor`` over the native engine."""

from __future__ import annotations

import atexit
import concurrent.futures
import contextlib
import importlib
import itertools
import os
import sys
import weakref
from _thread import start_new_thread

from gristmill import _native, _resources, _world

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any, TypeVar

    from gristmill._completion import Registry
    from gristmill._context.declare import Context
    from gristmill._nodes.blobs import Blobs
    from gristmill._nodes.placement import Placement

    R = TypeVar("R")

#: How long to look for something before a sleep is learned from how often that comes.
LEARNED_US = -1.0
#: A node is asked for all the GPUs that it has.
_ALL_GPUS = 2**32 - 1
#: Items of a map that are submitted ahead: enough to keep a node busy, few enough to stay in its caches.
_MAP_WINDOW = 16_384
#: Executors by age.
_numbers = itertools.count()

#: Placements that were started and have not been ended.
_placed: list[Placement] = []
#: Executors with nodes that nobody has any more, until they have finished what they were given.
_forsaken: list[Executor] = []

#: Executors to shut down when the interpreter ends: pending tasks are completed, as the standard library does it.
_living: weakref.WeakSet[Executor] = weakref.WeakSet()


class Executor(_native.Engine, concurrent.futures.Executor):
    """Runs calls in worker processes of this machine.

    A complete ``concurrent.futures.Executor``, so that a program changes one line; in addition its futures can be
    awaited and passed as arguments of other tasks, also inside lists, tuples and dicts.

    :param max_workers: worker processes; the cores this process may use (affinity and cgroup) if not given.
    :param initializer: called in each worker before its first task. When it raises, the executor is broken and every
        task fails with ``StartError``. With ``nodes`` a node where it raises gets nothing more; the executor is broken
        when it has raised on all.
    :param initargs: arguments of the initializer.
    :param max_tasks_per_child: a worker is replaced after this many tasks; never if not given.
    :param start: ``"fork"`` forks workers from a warm single-threaded zygote; ``"spawn"`` starts an interpreter each.
    :param preload: names of modules that the zygote imports once for all workers.
    :param output: whether what tasks print reaches this process's standard output and error.
    :param threads_per_worker: threads that BLAS and OpenMP may use in each worker; the worker's share of the cores if
        not given.
    :param spin_us: how long an idle worker and a waiting caller poll before they sleep, microseconds; learned from the
        number of cores if not given. With ``nodes`` callers learn it from how soon results come.
    :param task_limit: tasks that may be outstanding, 16 million or a quarter of memory if not given; ``submit`` beyond
        it waits (``when_full="block"``) or raises ``LimitReached`` (``when_full="raise"``).
    :param nodes: where workers are, if not on this machine: a placement of ``gristmill.on``, or the addresses of
        agents that listen (``gristmill.on.hosts``). ``max_workers`` is then how many each node runs at most, all that
        it offers if not given.
    :param memory: what tasks may ask for together, bytes or a text such as ``"64GB"``; all of this machine's if not
        given. With ``nodes`` what each node is asked for, of which it gives what it has.
    :param gpus: GPUs that tasks may ask for; all that are found if not given. With ``nodes`` those of each node,
        at most.
    :param context_memory: what contexts that nobody uses may take, with those that are used: bytes, or a text such as
        ``"8GB"``; half of this machine's memory if not given. On nodes half of what a node gives.
    :param blobs: how large arguments come to nodes (``gristmill.on.Blobs``).

    Workers start with the first task. A worker's world is the caller's at that time: working directory, ``sys.path``,
    environment, umask, locale and warning filters; ``logging`` is unconfigured and random seeds differ per worker.
    """

    #: Who waits for which future; set by itself once somebody does.
    _registry: Registry | None = None
    _is_shut_down = False
    _placement: Placement | None = None

    def __init__(
        self,
        max_workers: int | None = None,
        initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (),
        *,
        max_tasks_per_child: int | None = None,
        start: str = "fork",
        preload: Sequence[str] = (),
        output: bool = True,
        threads_per_worker: int | None = None,
        spin_us: float | None = None,
        task_limit: int | None = None,
        when_full: str = "block",
        nodes: Placement | Sequence[str] | None = None,
        memory: int | str | None = None,
        gpus: int | None = None,
        blobs: Blobs | None = None,
        context_memory: int | str | None = None,
    ) -> None:
        if max_workers is not None and max_workers <= 0:
            raise ValueError("max_workers must be greater than 0")
        if initializer is not None and not callable(initializer):
            raise TypeError("initializer must be a callable")
        if max_tasks_per_child is not None and max_tasks_per_child <= 0:
            raise ValueError("max_tasks_per_child must be >= 1")
        if start not in ("fork", "spawn"):
            raise ValueError(f'start must be "fork" or "spawn", not {start!r}')
        if when_full not in ("block", "raise"):
            raise ValueError(f'when_full must be "block" or "raise", not {when_full!r}')
        if blobs is not None and nodes is None:
            raise ValueError("blobs are for executors with nodes")
        self._initializer = (initializer, initargs)
        self._preload = tuple(preload)
        self._max_workers = max_workers or _native.cpu_count()
        self._threads = threads_per_worker or max(1, _native.cpu_count() // self._max_workers)
        self._placement = _placement(nodes)
        kept = None if context_memory is None else _resources.size(context_memory)
        #: What every node is asked for.
        self._wish: dict[str, Any] = {
            "workers": max_workers or 0,
            "tasks_per_worker": max_tasks_per_child or 0,
            "spawn": start == "spawn",
            "memory": 0 if memory is None else _resources.size(memory),
            "gpus": _ALL_GPUS if gpus is None else gpus,
            "duration_s": None,
            "exact": False,
            "blob_memory": blobs and blobs.memory,
            "blob_disk": blobs and blobs.disk,
            "context_memory": kept,
        }
        self._spin_us = spin_us if spin_us is not None else _default_spin_us()
        if nodes is not None:
            self._threads = threads_per_worker or 0  # a worker's share is its node's business
            self._spin_us = LEARNED_US if spin_us is None else spin_us
        self._output = output
        #: How long a worker looks for tasks before it sleeps; below 0 is learned.
        self._hot_us = max(self._spin_us, 0.0)
        self._supply = _supply(memory, gpus, nodes is not None)
        self._configure(
            workers=self._max_workers,
            tasks_per_worker=max_tasks_per_child or 0,
            spawn=start == "spawn",
            spin_us=self._spin_us,
            task_limit=task_limit or 0,
            block_when_full=when_full == "block",
            has_nodes=nodes is not None,
            **self._supply,
            fanout=blobs.fanout if blobs else 2,
            topology=blobs.topology if blobs else "peers",
            context_memory=_resources.memory_size() // 2 if kept is None else kept,
        )
        self._maps: weakref.WeakSet[Any] = weakref.WeakSet()
        self._number = next(_numbers)
        _living.add(self)

    def _describe_world(self, function: object = None) -> tuple[bytes, dict[str, Any]]:
        """Called by the engine when it starts, with the function of the first task."""
        preload = self._preload
        if self._initializer[0] is not None or _world.goes_by_value(function):
            # All workers need it at once: loaded before the fork it is in memory only once.
            preload = (*preload, "gristmill._pickling")
        world = _world.describe(self._initializer, preload, self._threads, self._hot_us)
        return world, _world.program(self._output)

    def _place_nodes(self, world: bytes) -> None:
        """Called by the engine when it has started, if its workers are to be on nodes."""
        from gristmill._nodes.opening import open_door

        assert self._placement is not None, "only an executor with nodes is asked to place them"
        _placed.append(self._placement)
        open_door(self, self._placement, world)

    def _door_troubles(self) -> list[tuple[str, str]]:
        """What went wrong last with those that joined, or were dialled, and are not there."""
        return super()._node_troubles()

    def _node_troubles(self) -> list[tuple[str, str]]:
        """Why nodes that should be there are not: what went wrong with which last."""
        of_placement = self._placement.troubles() if self._placement in _placed else []
        return self._door_troubles() + of_placement

    def map(
        self,
        fn: Callable[..., R],
        /,
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
        buffersize: int | None = None,
        ordered: bool = True,
        progress: bool = False,
    ) -> Iterator[R]:
        """Applies ``fn`` to the items of the iterables, like the built-in ``map``; results come in order.

        Each item is a task of its own, however items are batched inside: ``chunksize`` is accepted and not needed.

        :param timeout: seconds from this call after which waiting for a result raises ``TimeoutError``.
        :param buffersize: how many items may be submitted ahead of the result that is asked for:
            16,384 if not given, so that infinite iterables are fine. A map of which no result was
            asked for runs all of its items even so, at the latest when it is dropped or the
            executor shut down.
        :param ordered: ``False`` gives results as they are completed.
        :param progress: shows a progress bar on standard error.
        """
        return self._map(None, fn, iterables, timeout, chunksize, buffersize, ordered, progress)

    def _map(
        self,
        options: TaskOptions | None,
        fn: Callable[..., R],
        iterables: tuple[Iterable[Any], ...],
        timeout: float | None,
        chunksize: int,
        buffersize: int | None,
        ordered: bool,
        progress: bool,
    ) -> Iterator[R]:
        if chunksize < 1:
            raise ValueError("chunksize must be >= 1.")
        if buffersize is not None and buffersize < 1:
            raise ValueError("buffersize must be None or > 0")
        total = _known_length(iterables)
        window = buffersize or _MAP_WINDOW
        items = iter(iterables[0]) if len(iterables) == 1 else zip(*iterables, strict=False)
        results: Iterator[R] = self._start_map(
            options, fn, items, len(iterables) != 1, window, timeout, ordered
        )
        if total is not None:
            self._maps.add(results)
        if not progress:
            return results
        from gristmill._progress import with_progress

        return with_progress(results, total)

    def submit_many(
        self, fn: Callable[..., R], /, *iterables: Iterable[Any]
    ) -> list[_native.Future[R]]:
        """Submits one task per item; gives their futures."""
        submit = self.submit
        return [submit(fn, *arguments) for arguments in zip(*iterables, strict=False)]

    def options(
        self,
        *,
        timeout: float | None = None,
        deadline: float | None = None,
        retries: int = 0,
        loss_retries: int = 0,
        timeout_retries: int = 0,
        priority: int = 0,
        grace: float = 1.0,
        views: bool = False,
        cores: int = 1,
        gpus: float = 0,
        memory: int | str | None = None,
        context: Context | None = None,
    ) -> TaskOptions:
        """Gives an object whose ``submit`` and ``map`` use these options.

        :param timeout: seconds a task may run; then it is interrupted, and killed after ``grace`` seconds.
        :param deadline: seconds from ``submit`` after which a task that has not started fails instead of starting.
        :param retries: how often a task that raised is run again.
        :param loss_retries: how often a task whose worker died is run again. The default 0 means that nothing which
            may have started runs twice.
        :param timeout_retries: how often a task that ran out of time is run again.
        :param priority: higher runs earlier.
        :param views: arrays of ``gristmill.array`` and other arrays in shared memory are passed by reference, and
            arrays of the result arrive as read-only views: nothing is copied. Do not change an array while a task
            that was given it this way runs.
        :param cores: workers' places that a task fills, so that it may use as many cores: nothing else runs there.
        :param gpus: GPUs that a task has for itself, or a share of one, such as 0.5; it sees no others.
        :param memory: memory that nobody else may ask for meanwhile: bytes, or a text such as ``"4GB"``.
        :param context: the ``gristmill.Context`` that tasks run in; they have what its workers have, and cannot ask for
            cores, GPUs or memory of their own.

        A task that asks for more than there is raises ``ResourceError`` when it is submitted; on nodes it waits for one
        that has so much.
        """
        budgets = (retries, loss_retries, timeout_retries)
        needs = _resources.demand(cores, gpus, memory)
        values = (timeout, deadline, *budgets, priority, grace, views, needs)
        return TaskOptions(self, *values, context=context)

    def explain(self, future: concurrent.futures.Future[Any]) -> str:
        """Says why the task of ``future`` does not run yet, or where it is, in a few sentences.

        Raises ``TypeError`` for what is no future of this executor.
        """
        return self._explain(future, self._node_troubles())

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Takes no more tasks; with ``wait`` returns when all are completed, callbacks too, and no process is left."""
        _living.discard(self)
        self._is_shut_down = True
        for results in () if cancel_futures else list(self._maps):
            results._submit_rest()
        self._shut_down(wait, cancel_futures)
        if wait and self._registry is not None:
            self._registry.join()
        if wait and self._placement in _placed:
            with contextlib.suppress(ValueError):  # another thread may shut it down as well
                _placed.remove(self._placement)
            self._placement.end()

    def __del__(self) -> None:
        """Finishes what it was given, as the standard library's does, if nobody has it any more: that takes nodes."""
        # There is no list any more once the interpreter has taken modules apart.
        if _placed and self._placement in _placed:
            _forsaken.append(self)
            # Not a thread of ``threading``: whoever makes one waits for it, and finalizers run anywhere.
            start_new_thread(_finish_forsaken, (self,))

    def _renew_references(self) -> None:
        """Lets those find it again who must not keep it alive: the collector may have told them that it is gone."""
        view = getattr(self._placement, "client", None)
        if view is not None:
            view.renew(self)

    def __reduce__(self) -> Any:
        raise TypeError(
            "an executor cannot be sent to another process, except to a task that it runs"
        )


class TaskOptions(_native.Options):
    """An executor with options for its tasks; made by ``Executor.options``."""

    def __init__(self, executor: Executor, *values: Any, context: Context | None = None) -> None:
        if context is not None:
            from gristmill._context.declare import check_named

            check_named(context, values[-1])
        self._executor = executor
        self._values = values
        self._context = context
        self._set(executor, values, context)

    def _for_tasks(self) -> tuple[tuple[Any, ...], Context | None]:
        """What goes to a task that submits tasks with these options."""
        return self._values, self._context

    def map(
        self,
        fn: Callable[..., R],
        /,
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
        buffersize: int | None = None,
        ordered: bool = True,
        progress: bool = False,
    ) -> Iterator[R]:
        """As ``Executor.map``, with these options for each item's task."""
        return self._executor._map(
            self, fn, iterables, timeout, chunksize, buffersize, ordered, progress
        )


def _placement(nodes: Placement | Sequence[str] | None) -> Placement | None:
    if nodes is None:
        return None
    from gristmill import on

    if isinstance(nodes, on.Placement):
        return nodes
    if isinstance(nodes, str):
        raise TypeError("nodes is a placement of gristmill.on, or a list of addresses")
    return on.hosts(*nodes)


def array(
    shape: int | tuple[int, ...], dtype: Any = float, *, executor: Executor | None = None
) -> Any:
    """Makes an uninitialised numpy array in the shared memory of an executor, writable here.

    With ``options(views=True)`` tasks get it without a copy; otherwise it is an array like any other.

    :param executor: whose memory it is in; the living executor that was made last if not given.
    """
    math, numpy = importlib.import_module("math"), importlib.import_module("numpy")
    executor = executor or newest()
    if executor is None:
        raise ValueError("there is no executor: make one first, whose memory the array is to be in")
    kind = numpy.dtype(dtype)
    if kind.hasobject:
        raise TypeError(f"an array of {kind} holds references and cannot be in shared memory")
    extents = (shape,) if isinstance(shape, int) else tuple(shape)
    size = math.prod(extents) * kind.itemsize
    return numpy.ndarray(extents, kind, executor._allocate(size))


def newest() -> Executor | None:
    """The living executor that was made last."""
    return max(_living, key=lambda one: one._number, default=None)


def wait_any(
    futures: Iterable[_native.Future[R]], timeout: float | None = None
) -> _native.Future[R]:
    """Gives one completed future of ``futures``, waiting for the first; far cheaper than ``concurrent.futures.wait``.

    Raises ``TimeoutError`` after ``timeout`` seconds, ``ValueError`` when there are none.
    """
    return _native.wait_any(futures, timeout)


def build_info() -> dict[str, str]:
    """How the native part was built: its profile (``release`` or ``debug``) and version."""
    return _native.build_info()


def _supply(memory: int | str | None, gpus: int | None, has_nodes: bool) -> dict[str, int]:
    """What tasks may ask for here; nodes say it themselves."""
    if gpus is not None and not 0 <= gpus <= _resources.GPUS_MAX:
        raise ValueError(f"gpus must be between 0 and {_resources.GPUS_MAX}, not {gpus!r}")
    wanted = None if memory is None else _resources.size(memory)
    if has_nodes:
        return {}
    count = _resources.gpu_count() if gpus is None else gpus
    return {"memory": wanted or _resources.memory_size(), "gpus": count}


def _default_spin_us() -> float:
    """Polling needs a core for the poller and one for the other side."""
    return 50.0 if _native.cpu_count() > 1 else 0.0


def _known_length(iterables: tuple[Iterable[Any], ...]) -> int | None:
    lengths = []
    for iterable in iterables:
        try:
            lengths.append(len(iterable))  # type: ignore[arg-type]
        except TypeError:
            return None
    return min(lengths, default=0)


def _finish_forsaken(executor: Executor) -> None:
    try:
        executor._renew_references()
        executor.shutdown()
    finally:
        _forsaken.remove(executor)


@atexit.register
def _finish() -> None:
    for executor in [*_living, *_forsaken]:
        executor.shutdown(wait=True)
    _native.finish_all()
    while _placed:
        _placed.pop().end()
    completion = sys.modules.get("gristmill._completion")
    if completion is not None:
        completion.join_all()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_living.clear)
    os.register_at_fork(after_in_child=_placed.clear)
    os.register_at_fork(after_in_child=_forsaken.clear)
