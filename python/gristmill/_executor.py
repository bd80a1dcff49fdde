"""The executor: ``concurrent.futures.Executor`` over the native engine."""

from __future__ import annotations

import atexit
import concurrent.futures
import itertools
import operator
import os
import sys
from _thread import start_new_thread

from gristmill import (
    _creation_sites,
    _green_threads,
    _native,
    _option_values,
    _options,
    _resources,
    _serving,
    _shared_tracker,
    _starting,
    _worker_environment,
)
from gristmill._mapping import Mapper
from gristmill._weak import WeakBag

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any, TypeVar

    from gristmill._completion import Registry
    from gristmill._context.declare import Context
    from gristmill._counts import Node, Stats
    from gristmill._mapping import MapTerms
    from gristmill._native import Future
    from gristmill._nodes.blobs import Blobs
    from gristmill._nodes.placement import Claim, Placement
    from gristmill._task_options import TaskOptions

    R = TypeVar("R")

#: Polling time that makes the engine learn the real one from how often the awaited event comes.
LEARNED_US = -1.0
#: Number of GPUs that asks a node for all it has.
_ALL_GPUS = 2**32 - 1
#: Types whose iterables end. Subclasses are not included.
_FINITE = frozenset((list, tuple, str, bytes, bytearray, dict, set, frozenset))
#: Types whose iterators do not end, unless they report their length.
_ENDLESS = frozenset((itertools.count, itertools.cycle, itertools.repeat))
#: Counter that numbers executors by age.
_numbers = itertools.count()

#: Placements that have started and have not ended, by the claims for which they started: the next claim is another key.
_placed: dict[Claim, Placement] = {}
#: Executors with nodes to which the program has no reference any more, until they have finished their tasks.
_forsaken: list[Executor] = []

#: Executors whose shutdown a signal handler interrupted, for example by Ctrl-C, while it waited for their tasks.
_interrupted: list[Executor] = []
_INTERRUPTED = "the program was interrupted while it waited for its tasks to end"

#: True once this worker has warned about an executor that a task has made.
_has_warned = False

#: Executors to shut down when the interpreter ends: pending tasks are completed, as in the standard library.
_living: WeakBag[Executor] = WeakBag()


class Executor(_native.Engine, Mapper, concurrent.futures.Executor):
    """Executor of calls in worker processes, on this machine or on nodes.

    It is a complete ``concurrent.futures.Executor``, so a program changes one line. In addition, its futures can be
    awaited and passed as arguments of other tasks, also inside lists, tuples and dicts.

    ```pycon
    >>> from gristmill import Executor
    >>> with Executor(2) as executor:
    ...     executor.submit(pow, 2, 10).result()
    ...     list(executor.map(abs, [-1, 2, -3]))
    1024
    [1, 2, 3]
    ```

    :param max_workers: the number of worker processes; by default the cores this process may use (affinity and cgroup).
        In a task, the default is the share of the cores that its worker has.
    :param initializer: a callable that each worker calls before its first task. If it raises, the executor is broken
        and every task fails with ``StartError``. With ``nodes``, a node where it raises gets no more tasks, and the
        executor is broken when it has raised on all nodes.
    :param initargs: arguments of the initializer.
    :param max_tasks_per_child: the number of tasks after which a worker is replaced; by default it never is.
    :param start: ``"fork"`` forks workers from a warm single-threaded zygote, all with the first task; ``"spawn"``
        starts an interpreter for each, when a task finds no idle one.
    :param preload: names of modules that the zygote imports once for all workers; with ``"spawn"`` each worker imports
        them.
    :param start_timeout: seconds that the imports of ``preload``, and each call of ``initializer``, may take; by
        default 600, and no limit if ``None``. A step that takes longer is stopped and breaks the executor as if it had
        raised. The error shows where the step was.
    :param output: whether the output of tasks reaches this process's standard output and error.
    :param threads_per_worker: threads that BLAS and OpenMP may use in each worker; by default the worker's share of the
        cores.
    :param spin_seconds: seconds that an idle worker and a waiting caller poll before they sleep; by default derived
        from the number of cores. With ``nodes``, callers learn the time from how soon results come.
    :param task_limit: tasks that may be outstanding; by default 16 million or a quarter of memory. Beyond the limit
        ``submit`` waits (``when_full="block"``) or raises ``LimitReachedError`` (``when_full="raise"``).
    :param nodes: the location of the workers, if not this machine: a placement of ``gristmill.on``, or the addresses of
        agents that listen (``gristmill.on.hosts``). ``max_workers`` is then the maximum for each node; by default all
        workers that the node offers.
    :param memory: memory that all tasks together may request: bytes, or text such as ``"64GB"``; by default all memory
        of this machine. With ``nodes``, the memory that each node is asked for; a node grants what it has.
    :param gpus: GPUs that tasks may request; by default all that are found. With ``nodes``, the maximum for each node.
    :param context_memory: the memory of all contexts above which unused contexts end: bytes, or text such as ``"8GB"``;
        by default half of this machine's memory, and on nodes half of what a node grants.
    :param blobs: settings for sending large arguments to nodes (``gristmill.on.Blobs``).

    The first task starts workers. The worker environment is the caller's at that time: working directory,
    ``sys.path``, environment variables, umask, locale and warning filters. ``logging`` is unconfigured, and random
    seeds differ between workers.
    """

    #: Waiters and callbacks of the futures. It is set when the first one is added.
    _registry: Registry | None = None
    _is_shut_down = False
    _placement: Placement | None = None
    #: The claim to the placement, which passes to another executor after the end of this one.
    _claim: Claim | None = None
    #: True for an executor in a task that stands for the one that runs the task.
    _stands_for_own = False
    #: The line that made an executor in a worker, and that does not stand for another.
    _made_at: str | None = None

    def __init__(
        self,
        max_workers: int | None = None,
        initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (),
        *,
        max_tasks_per_child: int | None = None,
        start: str = "fork",
        preload: Sequence[str] = (),
        start_timeout: float | None = _options.START_SECONDS,
        output: bool = True,
        threads_per_worker: int | None = None,
        spin_seconds: float | None = None,
        task_limit: int | None = None,
        when_full: str = "block",
        nodes: Placement | Sequence[str] | None = None,
        memory: int | str | None = None,
        gpus: int | None = None,
        blobs: Blobs | None = None,
        context_memory: int | str | None = None,
    ) -> None:
        _refuse_at_end()
        max_workers = _options.workers("max_workers", max_workers)
        if initializer is not None:
            from gristmill import _coroutines

            _coroutines.check(_options.function("initializer", initializer), "initializer")
        if not isinstance(initargs, tuple):
            initargs = _as_tuple("initargs", initargs)
        max_tasks = _options.optional_count(
            "max_tasks_per_child", max_tasks_per_child, 1, _options.LONG_MAX
        )
        _options.one_of("start", start, ("fork", "spawn"))
        _options.one_of("when_full", when_full, ("block", "raise"))
        if nodes is None:
            _starting.check()
        if _green_threads.are_used():
            _prepare_for_greenlets(nodes is not None)
        self._output = _options.flag("output", output)
        threads = _options.optional_count(
            "threads_per_worker", threads_per_worker, 1, _options.SHORT_MAX
        )
        spin_us = None
        if spin_seconds is not None:
            spin_us = 1e6 * _options.number(
                "spin_seconds", spin_seconds, 0, _options.SPIN_MAX_S, "number of seconds"
            )
        limit = _options.optional_count("task_limit", task_limit)
        gpus = _options.optional_count("gpus", gpus, 0, _resources.GPUS_MAX)
        wanted = None if memory is None else _resources.size(memory)
        kept = None if context_memory is None else _resources.size(context_memory, "context_memory")
        if blobs is not None:
            _check_blobs(blobs, nodes is not None)
        self._steps = _worker_environment.Steps(
            (initializer, initargs),
            _options.texts("preload", preload, "module names"),
            _options.optional_seconds("start_timeout", start_timeout, is_positive=True),
        )
        cores = _worker_environment.usable_cores()
        self._max_workers = max_workers or cores
        self._threads = threads or max(1, cores // self._max_workers)
        placement = _placement(nodes)
        #: The resource request that every node receives.
        self._lease_request: dict[str, Any] = {
            "workers": max_workers or 0,
            "tasks_per_worker": max_tasks or 0,
            "spawn": start == "spawn",
            "memory": wanted or 0,
            "gpus": _ALL_GPUS if gpus is None else gpus,
            "duration_s": None,
            "exact": False,
            "blob_memory": blobs and blobs.memory,
            "blob_disk": blobs and blobs.disk,
            "context_memory": kept,
        }
        self._spin_us = spin_us if spin_us is not None else _default_spin_us(cores)
        if nodes is not None:
            self._threads = threads or 0  # each node determines the share of its workers
            self._spin_us = LEARNED_US if spin_us is None else spin_us
        #: Microseconds that a worker polls for tasks before it sleeps; negative if learned.
        self._hot_us = max(self._spin_us, 0.0)
        usable = _resources.memory_size()
        self._supply = {} if nodes is not None else _supply(wanted or usable, gpus)
        self._configure(
            workers=self._max_workers,
            tasks_per_worker=max_tasks or 0,
            spawn=start == "spawn",
            spin_us=self._spin_us,
            task_limit=limit or 0,
            block_when_full=when_full == "block",
            has_nodes=nodes is not None,
            **self._supply,
            fanout=blobs.fanout if blobs else 2,
            topology=blobs.topology if blobs else "peers",
            context_memory=usable // 2 if kept is None else kept,
        )
        if placement is not None:
            self._placement = placement._claimed_by(self)
            self._claim = self._placement._claim
        self._maps: WeakBag[Any] = WeakBag()
        self._number = next(_numbers)
        _living.add(self)
        name = _name_of(initializer)
        self._site = _creation_sites.site((max_workers, max_tasks, start, name))
        if _creation_sites.is_worker():
            self._join_worker()

    def _join_worker(self) -> None:
        """Makes this executor, made in a worker, stand for the one that runs the worker's tasks if it is the same."""
        if _creation_sites.is_own(self._site):
            from gristmill import _executor_in_task

            _executor_in_task.adopt(self)
        else:
            self._made_at = _creation_sites.where()

    def _describe_worker_environment(self, function: object = None) -> tuple[bytes, dict[str, Any]]:
        """Returns the worker environment and the zygote's program. The engine calls this when it starts.

        :param function: the function of the first task.
        """
        _refuse_at_end()
        if self._made_at is not None:
            _warn_in_task(self._made_at, self._max_workers)
        if self._placement is None:
            _shared_tracker.start()
        # All workers need the pickling modules at once. Loaded before the fork, they are in memory only once.
        needs_pickling = self._steps.initializer[
            0
        ] is not None or _worker_environment.goes_by_value(function)
        environment = _worker_environment.describe(
            self._steps, needs_pickling, self._threads, self._hot_us, self._site
        )
        return environment, _worker_environment.program(self._output)

    def _on_start(self, environment: bytes) -> None:
        """Begins to answer ``gristmill top`` and places nodes. The engine calls this while its processes begin."""
        _serving.begin(self)
        if self._placement is not None:
            self._place_nodes(self._placement, environment)

    def _place_nodes(self, placement: Placement, environment: bytes) -> None:
        from gristmill._nodes.opening import open_connections

        placement._note_start()
        assert self._claim is not None, "it has claimed its placement"
        _placed[self._claim] = placement
        open_connections(self, placement, environment)

    def _connection_failures(self) -> list[tuple[str, str]]:
        """Returns the last failures of nodes that joined, or were dialled, and are absent."""
        return super()._node_failures()

    def _node_failures(self) -> list[tuple[str, str]]:
        """Returns the last failure of each node that should be present and is absent."""
        placement = None if self._claim is None else _placed.get(self._claim)
        of_placement = [] if placement is None else placement.failures()
        return self._connection_failures() + of_placement

    def _own_placement(self) -> Placement | None:
        """Returns the placement while this executor uses it, and not the next one."""
        placement = self._placement
        return placement if placement is not None and placement._claim is self._claim else None

    def _map(
        self, fn: Callable[..., R], iterables: tuple[Iterable[Any], ...], terms: MapTerms
    ) -> Iterator[R]:
        return self._map_bound(None, fn, iterables, terms)

    def _map_bound(
        self,
        bound: BoundExecutor | None,
        fn: Callable[..., R],
        iterables: tuple[Iterable[Any], ...],
        terms: MapTerms,
    ) -> Iterator[R]:
        ends = _ends(iterables)
        items = iter(iterables[0]) if len(iterables) == 1 else zip(*iterables, strict=False)
        results: Iterator[R] = self._start_map(
            bound,
            fn,
            items,
            len(iterables) != 1,
            terms.window,
            terms.is_bounded,
            terms.timeout,
            terms.is_ordered,
            ends,
        )
        if ends is not False:
            self._maps.add(results)
        return results

    def submit_many(self, fn: Callable[..., R], /, *iterables: Iterable[Any]) -> list[Future[R]]:
        """Submits one task per item and returns their futures.

        With several iterables, a task gets one item of each, and the shortest iterable ends the submission.
        """
        submit = self.submit
        return [submit(fn, *arguments) for arguments in zip(*iterables, strict=False)]

    def options(
        self,
        *,
        timeout: float | None = None,
        start_within: float | None = None,
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
    ) -> BoundExecutor:
        """Returns this executor with options: an object whose ``submit`` and ``map`` use them.

        :param timeout: seconds that a task may run. It is then interrupted, and killed after ``grace`` more seconds.
        :param start_within: seconds from ``submit`` within which a task must start; later it fails instead of starting.
        :param retries: the number of times that a task that raised is run again.
        :param loss_retries: the number of times that a task whose worker died is run again. With the default 0, a task
            that may have started never runs twice.
        :param timeout_retries: the number of times that a task that ran out of time is run again.
        :param priority: tasks of a higher priority start earlier.
        :param grace: seconds between the interrupt of a task that ran out of time and the kill of its worker.
        :param views: passes arrays of ``gristmill.array`` and other arrays in shared memory by reference, and returns
            arrays of the result as read-only views: nothing is copied. Do not change an array while a task that
            received it this way runs.
        :param cores: the number of CPU slots that a task fills, so that it may use as many cores. No other task runs in
            them.
        :param gpus: GPUs that a task has for itself, or a share of one, such as 0.5. The task sees no others.
        :param memory: memory that no other task may request meanwhile: bytes, or text such as ``"4GB"``.
        :param context: the ``gristmill.Context`` that tasks run in. They have the resources of its workers and cannot
            request cores, GPUs or memory of their own.

        Submitting a task that requests more than there is raises ``ResourceError``. On nodes, such a task waits for a
        node that has enough.
        """
        options = _option_values.make(
            timeout=timeout,
            start_within=start_within,
            retries=retries,
            loss_retries=loss_retries,
            timeout_retries=timeout_retries,
            priority=priority,
            grace=grace,
            views=views,
            cores=cores,
            gpus=gpus,
            memory=memory,
            context=context,
        )
        return BoundExecutor(self, options)

    def bind(self, options: TaskOptions) -> BoundExecutor:
        """Returns this executor with options that are made already, as ``options`` returns it with new ones."""
        return BoundExecutor(self, _option_values.of_caller(options))

    def stats(self) -> Stats:
        """Returns counts since the start, and of the tasks that are outstanding."""
        from gristmill._counts import Stats

        return Stats(**self._stats())

    def nodes(self) -> list[Node]:
        """Returns the nodes that the executor has now; none for an executor without ``nodes``."""
        from gristmill._counts import Node

        return [Node(**one) for one in self._nodes()]

    def explain(self, future: concurrent.futures.Future[Any]) -> str:
        """Explains in a few sentences why the task of ``future`` does not run yet, or where it is.

        Raises ``TypeError`` if ``future`` is no future of this executor.
        """
        return self._explain(future, self._node_failures())

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Refuses new tasks. With ``wait``, returns when all tasks and callbacks are completed and no process is left.

        If a signal handler ends the wait by raising, as Ctrl-C does, the wait is not repeated when the interpreter
        ends: tasks that still run are then killed.
        """
        self._check_made()
        try:
            self._end(wait, cancel_futures)
        except BaseException:
            if wait:
                _interrupted.append(self)
            raise

    def _check_made(self) -> None:
        """Raises ``RuntimeError`` if ``__init__`` was not called, for example by a subclass."""
        if "_number" not in self.__dict__:
            raise RuntimeError("Executor.__init__ was not called")

    def _abandon(self, reason: str) -> None:
        """Cancels the tasks that have certainly not started, and gives up all others, without a wait for anything."""
        self._begin_end()
        self._abort(reason, True)

    def _begin_end(self) -> None:
        # A placement has no client before it is started.
        placement = self._own_placement()
        view = getattr(placement, "client", None)
        if view is not None and not self._is_shut_down:
            view.begin_end()
        _living.discard(self)
        self._is_shut_down = True

    def _end(self, wait: bool, cancel_futures: bool) -> None:
        self._begin_end()
        for results in () if cancel_futures else self._maps:
            results._submit_rest()
        if wait and _green_threads.are_used():
            self._shut_down(False, cancel_futures)
            _green_threads.wait_until(lambda: self._wait_all(0))
        self._shut_down(wait, cancel_futures)
        if not wait:
            return
        _serving.leave(self)
        if self._registry is not None:
            self._registry.join()
        # Another thread may shut it down as well: the one that removes the placement ends it.
        placed = None if self._claim is None else _placed.pop(self._claim, None)
        if placed is not None:
            placed.end()
            placed._note_end()

    def __del__(self) -> None:
        """Finishes the tasks of a dropped executor that has nodes, as the standard library's executor does."""
        # The list no longer exists once the interpreter has taken modules apart.
        if _placed and self._claim in _placed:
            _forsaken.append(self)
            # Not a thread of ``threading``: the creator of one waits for it, and finalizers run in any thread.
            start_new_thread(_finish_forsaken, (self,))

    def _renew_references(self) -> None:
        """Renews the weak references to this executor, which the garbage collector may have cleared."""
        view = getattr(self._own_placement(), "client", None)
        if view is not None:
            view.renew(self)

    def __reduce__(self) -> Any:
        raise TypeError(
            "an executor cannot be sent to another process, except to a task that it runs"
        )


class BoundExecutor(_native.BoundEngine, Mapper):
    """An executor with options for its tasks; made by ``Executor.options`` and ``Executor.bind``.

    ``submit`` and ``map`` work like the executor's, and give each task the options in ``options``, a ``TaskOptions``.

    ```pycon
    >>> from gristmill import Executor
    >>> with Executor(2) as executor:
    ...     patient = executor.options(timeout=60, retries=2)
    ...     patient.submit(pow, 2, 10).result()
    ...     patient.options.retries
    1024
    2
    ```
    """

    @property
    def options(self) -> TaskOptions:
        """The options."""
        return _option_values.task_options(self._values)

    def _map(
        self, fn: Callable[..., R], iterables: tuple[Iterable[Any], ...], terms: MapTerms
    ) -> Iterator[R]:
        return self.executor._map_bound(self, fn, iterables, terms)


def _placement(nodes: Placement | Sequence[str] | None) -> Placement | None:
    if nodes is None:
        return None
    from gristmill import on

    if isinstance(nodes, on.Placement):
        return nodes
    try:
        addresses = _options.texts("nodes", nodes, "addresses")
    except TypeError:
        raise TypeError(
            f"nodes must be a placement of gristmill.on, or a list of addresses, not {_options.shown(nodes)}"
        ) from None
    if not addresses:
        given = _options.shown(nodes)
        raise ValueError(f"nodes must be a placement of gristmill.on, or addresses, not {given}")
    try:
        return on.hosts(*addresses)
    except ValueError as error:
        raise ValueError(f"nodes: {error}") from None


def array(
    shape: int | tuple[int, ...], dtype: Any = float, *, executor: Executor | None = None
) -> Any:
    """Makes an uninitialised numpy array in the shared memory of an executor, writable in this process.

    With ``options(views=True)``, tasks receive the array without a copy. Otherwise it behaves like any other array.

    :param shape: the lengths of the dimensions, or one length.
    :param dtype: the type of the elements, as numpy takes it.
    :param executor: the executor whose memory holds the array; by default the newest living executor.

    Raises ``ValueError`` if there is no executor, and ``TypeError`` for elements that are Python objects.

    ```pycon
    >>> import gristmill
    >>> with gristmill.Executor(2) as executor:
    ...     numbers = gristmill.array(1_000_000)
    ...     numbers[:] = 0.5
    ...     float(executor.options(views=True).submit(sum, numbers).result())
    500000.0
    ```
    """
    from importlib import import_module

    numpy = import_module("numpy")
    executor = executor or newest()
    if executor is None:
        raise ValueError("no executor exists: make one first, because the array is in its memory")
    kind = numpy.dtype(dtype)
    if kind.hasobject:
        raise TypeError(f"an array of {kind} holds references and cannot be in shared memory")
    extents = _extents(shape)
    size = kind.itemsize
    for extent in extents:
        size *= extent
    if size > _options.SIZE_MAX:
        raise ValueError(f"shape {_options.shown(shape)} needs more bytes than memory can have")
    return numpy.ndarray(extents, kind, executor._allocate(size))


def _extents(shape: Any) -> tuple[int, ...]:
    """Returns the extents of an array. Raises ``TypeError`` and ``ValueError`` that name ``shape``."""
    if isinstance(shape, (str, bytes, dict)):
        raise TypeError(
            f"shape must be a number or a tuple of numbers, not {_options.shown(shape)}"
        )
    try:
        extents = tuple(shape)
    except TypeError:
        extents = (shape,)
    return tuple(_options.count("shape", extent, 0) for extent in extents)


def newest() -> Executor | None:
    """Returns the living executor that was made last."""
    return max(_living, key=lambda one: one._number, default=None)


def wait_any(futures: Iterable[Future[R]], timeout: float | None = None) -> Future[R]:
    """Waits for the first completed future of ``futures`` and returns it; far cheaper than ``concurrent.futures.wait``.

    Raises ``TimeoutError`` after ``timeout`` seconds, and ``ValueError`` if ``futures`` is empty.

    ```pycon
    >>> from gristmill import Executor, wait_any
    >>> with Executor(2) as executor:
    ...     futures = executor.submit_many(pow, [2, 2, 2], [8, 8, 8])
    ...     wait_any(futures).result()
    256
    ```
    """
    return _native.wait_any(futures, timeout)


def build_info() -> dict[str, str]:
    """Returns facts about the native part, by name.

    ``profile`` is ``release`` or ``debug``, ``version`` is the version of Gristmill, and ``wire_version`` is the
    version of the protocol between a program and its nodes.
    """
    return _native.build_info()


def _supply(memory: int, gpus: int | None) -> dict[str, int]:
    """Returns the resources that tasks may request on this machine. Nodes report their own."""
    count = _resources.gpu_count() if gpus is None else gpus
    return {"memory": memory, "gpus": count}


def _name_of(function: Any) -> str | None:
    """Returns a name for an initializer, the same in each process."""
    if function is None:
        return None
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def _warn_in_task(made_at: str, workers: int) -> None:
    """Warns, once in a process, about an executor that starts workers beside those that run this task."""
    global _has_warned
    if _has_warned:
        return
    _has_warned = True
    import warnings

    text = (
        f"an executor made in a task, at {made_at}, starts {workers} worker process{'es' * (workers != 1)} of its own. "
        "gristmill.current_executor() returns the executor that runs the task"
    )
    warnings.warn(text, RuntimeWarning, stacklevel=2)


def _as_tuple(name: str, value: Iterable[Any]) -> tuple[Any, ...]:
    if isinstance(value, (str, bytes)) or not hasattr(type(value), "__iter__"):
        raise TypeError(f"{name} must be a tuple of arguments, not {_options.shown(value)}")
    return tuple(value)


def _check_blobs(blobs: Blobs, has_nodes: bool) -> None:
    from gristmill._nodes.blobs import Blobs

    if not isinstance(blobs, Blobs):
        raise TypeError(f"blobs must be a gristmill.on.Blobs, not {_options.shown(blobs)}")
    if not has_nodes:
        raise ValueError("blobs needs an executor with nodes")


def _default_spin_us(cores: int) -> float:
    """Returns the default polling time: polling needs one core for the poller and one for the other side."""
    return 50.0 if cores > 1 else 0.0


def _ends(iterables: tuple[Iterable[Any], ...]) -> bool | None:
    """Returns whether a map over these ends; ``None`` if only reading them tells. Does not ask for a length."""
    ends = [_ends_by_type(iterable) for iterable in iterables]
    if not ends or True in ends:
        return True
    return None if None in ends else False


def _ends_by_type(iterable: Iterable[Any]) -> bool | None:
    kind = type(iterable)
    if kind is range:
        # No program comes to the end of more items than memory can address.
        return len(iterable[: sys.maxsize]) < sys.maxsize  # type: ignore[index]
    if kind in _FINITE or kind is getattr(sys.modules.get("numpy"), "ndarray", None):
        return True
    if kind in _ENDLESS:
        return kind is itertools.repeat and operator.length_hint(iterable, -1) >= 0
    return None


def _refuse_at_end() -> None:
    if sys.is_finalizing():
        raise RuntimeError("the interpreter is ending: an executor can no longer start workers")


def _prepare_for_greenlets(has_nodes: bool) -> None:
    if has_nodes:
        raise RuntimeError(
            "nodes need threads of the system, but gevent or eventlet has replaced those of this program by greenlets: "
            "patch it without threads (monkey.patch_all(thread=False)), or use nodes in a process of their own"
        )
    _green_threads.release_in_waits(_native.Future)


def _finish_forsaken(executor: Executor) -> None:
    try:
        executor._renew_references()
        executor.shutdown()
    finally:
        _forsaken.remove(executor)


@atexit.register
def _finish() -> None:
    try:
        for executor in _interrupted:
            executor._abort(_INTERRUPTED)
        for executor in [*_living, *_forsaken]:
            executor.shutdown(wait=True)
        _native.finish_all()
    except BaseException:  # Ctrl-C: the user waits no longer
        _native.abort_all(_INTERRUPTED)
        raise
    finally:
        while _placed:
            _placed.popitem()[1].end()
        _serving.end()
    completion = sys.modules.get("gristmill._completion")
    if completion is not None:
        completion.join_all()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_living.clear)
    os.register_at_fork(after_in_child=_placed.clear)
    os.register_at_fork(after_in_child=_forsaken.clear)
    os.register_at_fork(after_in_child=_interrupted.clear)
