"""``gristmill.Context``: what functions need before they run, as the caller declares it.

The idea is that of function contexts: Phung and others, "Accelerating Function-Centric Applications by Discovering,
Distributing, and Retaining Reusable Context in Workflow Systems", section 3.
"""

from __future__ import annotations

import os
import sys
import weakref
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from gristmill import _functions, _native, _resources, _world
from gristmill._context import arguments, held, packages
from gristmill._context import files as _files
from gristmill._context.account import ContextEquipment, ContextReport
from gristmill._context.distribution import pack_for
from gristmill._errors import ContextError, ImageError, ResourceError, UnpicklableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from gristmill._executor import Executor
    from gristmill._images.opening import Opened
    from gristmill._nested import NestedExecutor

#: The environment of a context whose nodes get what they lack of the caller's.
AUTO = "auto"
#: Seconds that a setup may take.
SETUP_SECONDS = 600.0
#: Seconds that a context is kept while nobody uses it.
KEEP_SECONDS = 600.0
#: Workers are counted by two bytes.
_WORKERS_MAX = 2**16 - 1

#: Contexts of this process by key: one that comes back is the one that left.
_known: weakref.WeakValueDictionary[bytes, Context] = weakref.WeakValueDictionary()
#: Those that an engine was told of, by their addresses: looked at by a thread that answers what a program does.
_told: dict[int, weakref.ref[Context]] = {}
#: What a task needs that asks for nothing.
_NO_NEEDS = _resources.demand(1, 0, None)
#: How many contexts each module has made so far.
_made: dict[str, int] = {}


class Context:
    """What functions need before they run: set up once for each worker, and kept there for every call.

    Tasks that are submitted with it (``executor.options(context=ctx).submit(f, x)``, or ``ctx.submit(f, x)``) run in
    workers where it was set up, and get by name what the setup left behind: ``ctx["model"]``, in functions of any kind,
    lambdas and closures too. An exception in a call costs nothing; a worker that dies is forked anew from the process
    in which the context was set up.

    :param setup: called with ``args`` before the first call; returns a dict of names to objects, or ``None``. A
        generator function yields that dict instead, and what follows the ``yield`` runs when the context is not needed
        any more.
    :param environment: packages to import from instead of the caller's: the folder of a virtual environment, of one
        made by uv or by conda, for the same version of Python, or an image of one (``gristmill env pack``). Other nodes
        get it as an image, once each and from each other, and keep it on their own disks. With ``"auto"`` it is the
        caller's own: nodes get the distributions and modules that the setup, ``preload`` and the program import, unless
        they have all of them.
    :param files: paths of files that the setup and the functions need, or a mapping of names to paths; the name of a
        path is its last part. ``gristmill.context_file(name)`` is where one is, in the setup and in the functions.
        Other nodes get them like the environment. They are not to be changed while the context is used.
    :param name: what the context is called in messages; the setup's name if not given.
    :param preload: names of modules that are imported before the setup is called.
    :param slots: workers that have the context at the same time, at most; as many as there are calls for if not given.
        On nodes that is for each node.
    :param mode: ``"direct"`` runs calls one after the other in the worker itself, ``"fork"`` each in a forked child of
        it: slower by some milliseconds, and whatever a call does to the objects of the context is gone after it.
    :param reuse: ``"memory"`` keeps the context in memory. ``"disk"`` and ``"none"`` set it up anew for each call, in a
        new interpreter: they are there to measure what a context gains (levels L2 and L1 of the paper). With ``"none"``
        nodes are brought nothing, and find environment and files under the same paths.
    :param fork: ``False`` if processes must not be forked from one where the setup has run, as with CUDA: then each
        worker is an interpreter of its own and calls the setup itself. A setup that leaves threads behind is found out,
        and treated so.
    :param cores: workers' places that each worker with the context fills, so that its calls may use as many cores.
    :param gpus: GPUs that each has for itself, or a share of one, such as 0.5: setup and calls see no others. Each
        worker is an interpreter of its own then and calls the setup itself, as with ``fork=False``.
    :param memory: memory that each has and nobody else may ask for: bytes, or a text such as ``"4GB"``.
    :param timeout: seconds that the setup may take; no limit if ``None``.
    :param keep: seconds for which the context is kept while nobody uses it; for ever if ``None``. Where contexts take
        more memory than they may, the one goes first that was used longest ago.
    :param own_folder: each call has an empty working directory of its own, which is removed after it.

    Workers have cores, GPUs and memory for as long as they have the context. One that has nothing to do gives way to
    whoever waits for what it has. A context that asks for more than there is raises ``ResourceError`` with its first
    task; on nodes tasks wait for one that has so much.

    A context is set up with the first task that needs it, in processes that were started for it. It may be used here,
    too: ``with ctx:`` sets it up in this process.
    """

    __slots__ = (
        "__weakref__",
        "_demand",
        "_description",
        "_file",
        "_key",
        "_local",
        "_objects",
        "_place",
        "_stamp",
        "_uses",
        "args",
        "cores",
        "environment",
        "files",
        "fork",
        "gpus",
        "keep",
        "memory",
        "mode",
        "name",
        "own_folder",
        "preload",
        "reuse",
        "setup",
        "slots",
        "timeout",
    )

    def __init__(
        self,
        setup: Callable[..., Any],
        /,
        *args: Any,
        environment: str | os.PathLike[str] | None = None,
        files: Mapping[str, str | os.PathLike[str]] | Sequence[str | os.PathLike[str]] = (),
        name: str | None = None,
        preload: Sequence[str] = (),
        slots: int | None = None,
        mode: str = "direct",
        reuse: str = "memory",
        fork: bool = True,
        cores: int = 1,
        gpus: float = 0,
        memory: int | str | None = None,
        timeout: float | None = SETUP_SECONDS,
        keep: float | None = KEEP_SECONDS,
        own_folder: bool = False,
    ) -> None:
        if not callable(setup):
            raise TypeError(f"setup must be callable, not {setup!r}")
        if isinstance(preload, str):
            raise TypeError("preload is a list of module names, not one text")
        for option, value in (("timeout", timeout), ("keep", keep)):
            if value is not None and not hasattr(value, "__float__"):
                raise TypeError(f"{option} must be a number of seconds, not {value!r}")
        if slots is not None and not hasattr(slots, "__index__"):
            raise TypeError(f"slots must be a whole number of workers, not {slots!r}")
        if slots is not None and not 1 <= slots <= _WORKERS_MAX:
            raise ValueError(f"slots must be between 1 and {_WORKERS_MAX}, not {slots!r}")
        if mode not in ("direct", "fork"):
            raise ValueError(f'mode must be "direct" or "fork", not {mode!r}')
        if reuse not in ("memory", "disk", "none"):
            raise ValueError(f'reuse must be "memory", "disk" or "none", not {reuse!r}')
        if timeout is not None and not timeout > 0:
            raise ValueError(f"timeout must be a positive number of seconds, not {timeout!r}")
        if keep is not None and not keep >= 0:
            raise ValueError(f"keep must be a number of seconds, not {keep!r}")
        self.setup = setup
        self.args = args
        self.environment = environment
        self.files = _files.declare(files)
        self.name: str = name or _name_of(setup)
        self.preload = tuple(preload)
        self.slots = slots
        self.mode = mode
        self.reuse = reuse
        self.fork = fork
        self.cores = cores
        self.gpus = gpus
        self.memory = memory
        self._demand = _resources.demand(cores, gpus, memory)
        self.timeout = timeout
        self.keep = keep
        self.own_folder = own_folder
        self._place = _place_of(sys._getframe(1).f_globals.get("__name__", "__main__"))
        self._begin()

    def _begin(self) -> None:
        """Sets what a context has that was made, or has come to this process."""
        self._key: bytes | None = None
        self._description = b""
        #: Large parts of the arguments.
        self._file: Opened | None = None
        self._objects: dict[str, Any] | None = None
        self._local: held.Held | None = None
        #: Another one after a release: functions that capture the context are described anew then, which tells of it.
        self._stamp = object()
        self._uses: weakref.WeakKeyDictionary[
            Executor | NestedExecutor, _native.ContextUse | _native.NestedContext
        ] = weakref.WeakKeyDictionary()

    # What functions get

    def __getitem__(self, name: str) -> Any:
        """Gives what the setup left behind under this name.

        Raises ``KeyError``, and ``ContextError`` where there is no such context.
        """
        objects = self._objects
        if objects is None:
            objects = self._objects = held.objects_of(self)
        try:
            return objects[name]
        except KeyError:
            known = ", ".join(map(repr, objects)) or "nothing"
            raise KeyError(
                f"context {self.name!r} has no {name!r}: its setup has left {known}"
            ) from None

    def __contains__(self, name: object) -> bool:
        """Whether the setup left something behind under this name."""
        if self._objects is None:
            self._objects = held.objects_of(self)
        return name in self._objects

    def __iter__(self) -> Iterator[str]:
        """Gives the names of what the setup left behind."""
        if self._objects is None:
            self._objects = held.objects_of(self)
        return iter(self._objects)

    # Tasks

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Runs ``fn(*args, **kwargs)`` in this context, in the living executor that was made last; gives its future.

        In a task that has made none that is the one that runs it.
        """
        return self._options().submit(fn, *args, **kwargs)

    def map(self, fn: Callable[..., Any], /, *iterables: Any, **options: Any) -> Any:
        """As ``Executor.map``, in this context and the living executor that was made last."""
        return self._options().map(fn, *iterables, **options)

    def _options(self) -> Any:
        executor = _current()
        if executor is None:
            raise ValueError("there is no executor: make one first, in which the call is to run")
        return executor.options(context=self)

    def report(self, executor: Executor | None = None) -> ContextReport | None:
        """What the context cost in an executor, and was good for; ``None`` if it was not used there, and inside tasks.

        :param executor: the living one that was made last if not given.
        """
        where = executor or _current()
        use = None if where is None else self._uses.get(where)
        report = None if use is None else use.report()
        if report is None:
            return None
        cores, parts, memory = report.pop("holds")
        holds = ContextEquipment(cores, parts / _resources.PARTS, memory)
        return ContextReport(**report, holds=holds)

    def release(self) -> None:
        """Lets executors forget the context: its tasks are completed, then its workers leave and their memory is free.

        It is set up anew when it is used again.
        """
        for use in list(self._uses.values()):
            use.release()
        self._uses.clear()
        self._stamp = object()
        # Files may be others by then.
        if self._is_whole and self.files:
            self._key = None

    # Use in this process

    def __enter__(self) -> Context:
        """Sets the context up in this process."""
        if self._local is not None:
            raise ContextError(f"context {self.name!r} is set up in this process already")
        if not self._is_whole:
            raise ContextError(
                f"context {self.name!r} cannot be set up in this process, which has heard of its name only: submit the "
                "task with options(context=...), or make the context in the task"
            )
        self._local = held.Held(self.name, self.key, self._place)
        try:
            _files.enter(_files.describe(self.files, self.name))
            self._local.begin(self.setup, self.args)
        except BaseException:
            self._local = None
            _files.leave()
            raise
        self._objects = self._local.objects
        return self

    def __exit__(self, *_failure: object) -> None:
        """Runs what follows the setup's ``yield``."""
        local, self._local, self._objects = self._local, None, None
        if local is not None:
            try:
                local.end()
            finally:
                _files.leave()

    # Ways to other processes

    @property
    def key(self) -> bytes:
        """What tells contexts apart: a hash of the setup's code, its arguments and the options."""
        if self._key is None:
            self._description = self._describe()
            self._key = blake2b(self._description, digest_size=held.KEY_SIZE).digest()
            _known[self._key] = self
        return self._key

    @property
    def description(self) -> bytes:
        """What a worker's process is told of the context."""
        return self.key + self._description

    @property
    def _is_auto(self) -> bool:
        return self.environment == AUTO

    def _describe(self) -> bytes:
        """What a worker's process is told of the context, but its key."""
        setup = _functions.definition(self.setup)
        try:
            args = arguments.dump(self.args)
        except UnpicklableError as error:
            text = f"the arguments of the setup of context {self.name!r} cannot be sent: {error}"
            raise UnpicklableError(text) from error
        except ImageError as error:
            text = f"the arguments of the setup of context {self.name!r} cannot be kept: {error}"
            raise ContextError(text) from error
        self._file = args.file
        return _world.dump(
            {
                "name": self.name,
                "place": self._place,
                "setup": setup,
                "args": args.pickled,
                "parts": args.parts,
                "preload": self.preload,
                "timeout": self.timeout,
                "mode": self.mode,
                "reuse": self.reuse,
                "own_folder": self.own_folder,
                "demand": self._demand,
                "environment": None if self._is_auto else packages.describe(self.environment),
                "is_auto": self._is_auto,
                # What nodes get of the caller's environment.
                "layers": [],
                "files": _files.describe(self.files, self.name),
            }
        )

    def _use(self, executor: Executor | NestedExecutor) -> Any:
        """Called with the first task that names the context: by the engine, and inside tasks."""
        use = self._uses.get(executor)
        if use is None:
            use = self._uses[executor] = self._define(executor)
        return use

    def _define(
        self, executor: Executor | NestedExecutor
    ) -> _native.ContextUse | _native.NestedContext:
        if not isinstance(executor, _native.Engine):
            # What this worker has, or has heard of, whoever runs its tasks knows.
            known = held.key_of(self) or (None if self._is_whole else self.key)
            if known is not None:
                return executor._define_context(self.name, known, (1, True, None, _NO_NEEDS))
        elif not self._is_whole:
            raise ContextError(
                f"context {self.name!r} was made in a task, which has told no more than its name: tasks of that task "
                "can name it, not those of this program"
            )
        terms = (self.slots or _WORKERS_MAX, self.fork, self.keep, self._demand)
        if not isinstance(executor, _native.Engine):
            return executor._define_context(self.name, self.description, terms)
        description, parcel = pack_for(executor, self)
        address = id(self)
        _told[address] = weakref.ref(self, lambda _: _told.pop(address, None))
        return executor._define_context(self.name, description, terms, parcel)

    @property
    def _is_whole(self) -> bool:
        """Whether it was made in this process, which knows how it is set up."""
        return hasattr(self, "setup")

    def _announce(self) -> None:
        """Tells whoever runs tasks of this process what a pickle names by its key alone: tasks may name it, too."""
        if self._is_whole:
            for executor in _running():
                self._use(executor)

    def __reduce__(self) -> Any:
        self._announce()
        return arrive, (self.key, self.name, self._place)

    def __repr__(self) -> str:
        return f"<Context {self.name!r}>"


def reports(executor: Executor) -> list[tuple[str, ContextReport]]:
    """What the contexts of an executor cost, and were good for, each with its key, in the order of their names."""
    contexts = [reference() for reference in list(_told.values())]
    found = [(one.key.hex(), one.report(executor)) for one in contexts if one is not None]
    there = [(key, report) for key, report in found if report is not None]
    return sorted(there, key=lambda one: one[1].name)


def arrive(key: bytes, name: str, place: tuple[str, int]) -> Context:
    """Gives the context that a pickle names: the one of this process, or a handle to what its worker has."""
    context = _known.get(key)
    if context is None:
        context = Context.__new__(Context)
        context.name, context._place = name, place
        context._begin()
        context._key = key
        _known[key] = context
    return context


def check_named(context: object, needs: tuple[int, int, int]) -> None:
    """Raises ``TypeError`` for what is no context, ``ResourceError`` where a task in one needs more than a worker."""
    if not isinstance(context, Context):
        raise TypeError(f"context must be a gristmill.Context, not {context!r}")
    if needs != _NO_NEEDS:
        raise ResourceError(
            f"a task in context {context.name!r} has what its context's workers have: it cannot ask for cores, GPUs or "
            "memory of its own"
        )


def _current() -> Executor | NestedExecutor | None:
    """The living executor that was made last; in a task that has made none the one that runs it."""
    module = sys.modules.get("gristmill._executor")
    newest: Executor | None = None if module is None else module.newest()
    return newest if newest is not None else _around()


def _running() -> list[Executor | NestedExecutor]:
    """The executors of this process whose engines run, and the one that runs this process's task."""
    module = sys.modules.get("gristmill._executor")
    living = [] if module is None else [one for one in module._living if one._has_started()]
    around = _around()
    return living if around is None else [*living, around]


def _around() -> NestedExecutor | None:
    """The executor that runs this thread's task, if it runs one."""
    if "GRISTMILL_WORKER" not in os.environ:
        return None
    try:
        _native.nested_check()
    except RuntimeError:
        return None
    from gristmill import _nested

    return _nested._executor


def _name_of(setup: Any) -> str:
    name = getattr(setup, "__qualname__", None) or type(setup).__qualname__
    return str(name).rpartition("<locals>.")[2]


def _place_of(module: str) -> tuple[str, int]:
    """Which of its module's contexts one is: a worker that imports the module finds the same one there."""
    number = _made[module] = _made.get(module, 0) + 1
    return module, number
