"""``gristmill.Context``: the declaration of what functions need before they run.

The idea is that of function contexts. Source: Phung and others, "Accelerating Function-Centric Applications by
Discovering, Distributing, and Retaining Reusable Context in Workflow Systems", section 3.
"""

from __future__ import annotations

import os
import sys
import weakref
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from gristmill import _coroutines, _functions, _native, _options, _resources, _worker_environment
from gristmill._context import arguments, held, packages
from gristmill._context import files as _files
from gristmill._context.account import ContextReport
from gristmill._context.distribution import pack_for
from gristmill._errors import ContextError, ImageError, ResourceError, UnpicklableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from gristmill._context.terms import ContextCalls, ContextResources, ContextWorkers
    from gristmill._executor import Executor
    from gristmill._images.opening import Opened
    from gristmill._nested import NestedExecutor

#: Value of ``environment`` for which nodes receive the parts of the caller's environment that they lack.
AUTO = "auto"

#: Contexts of this process by key. A context that returns in a pickle is the same object again.
_known: weakref.WeakValueDictionary[bytes, Context] = weakref.WeakValueDictionary()
#: Contexts that an engine knows, by address. A thread that reports on the program reads this.
_told: dict[int, weakref.ref[Context]] = {}
#: Resource demand of a task that asks for nothing.
_NO_NEEDS = _resources.demand(1, 0, None)
#: Number of contexts that each module has made so far.
_made: dict[str, int] = {}


class Context:
    """Objects that functions need before they run: set up once per worker, and kept there for every call.

    Tasks that are submitted with a context (``executor.options(context=ctx).submit(f, x)``, or ``ctx.submit(f, x)``)
    run in workers where the context is set up. They look up what the setup returned by name: ``ctx["model"]``. This
    works in functions of any kind, including lambdas and closures. An exception in a call does not affect the context.
    A worker that dies is forked again from the process in which the context was set up.

    :param setup: function that is called with ``args`` before the first call. It returns a dict of names to objects, or
        ``None``. A generator function yields that dict instead; the code after the ``yield`` runs when the context is
        no longer needed.
    :param name: name of the context in messages; by default the name of the setup.
    :param environment: packages to import from instead of the caller's: the folder of a virtual environment, of an
        environment made by uv or by conda, for the same version of Python, or an image of one (``gristmill env pack``).
        Other nodes receive it as an image, once each and from each other, and keep it on their own disks. With
        ``"auto"`` it is the caller's own environment: nodes receive the distributions and modules that the setup,
        ``preload`` and the program import, unless they have all of them.
    :param files: paths of files that the setup and the functions need, or a mapping of names to paths. Without a
        mapping, the name of a file is the last part of its path. ``gristmill.context_file(name)`` returns the path of a
        file, in the setup and in the functions. Other nodes receive the files like the environment. Do not change the
        files while the context is in use.
    :param resources: what each worker with the context holds, as ``ContextResources(cores=, gpus=, memory=)``.
    :param workers: how many workers have the context, and how they begin and end, as
        ``ContextWorkers(max_workers=, preload=, fork=, timeout=, keep=)``.
    :param calls: how calls run, as ``ContextCalls(mode=, own_folder=)``.

    Workers hold their cores, GPUs and memory as long as they have the context. An idle worker leaves when other work
    waits for these resources. If a context asks for more than the machine has, its first task raises ``ResourceError``;
    with nodes, tasks wait for a node that has enough.

    A context is set up when the first task needs it, in processes that are started for it. You can also use it in this
    process: ``with ctx:`` sets it up here.

    ```pycon
    >>> from gristmill import Context, Executor
    >>> def load(path):
    ...     return {"weights": {"C": 12, "O": 16}, "path": path}
    >>> context = Context(load, "weights.bin")
    >>> with Executor(2) as executor:
    ...     context.submit(lambda atom: context["weights"][atom], "O").result()
    16
    ```
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
        "_reuse",
        "_stamp",
        "_uses",
        "args",
        "calls",
        "environment",
        "files",
        "name",
        "resources",
        "setup",
        "workers",
    )

    def __new__(cls, *_args: Any, **_options: Any) -> Context:
        """Creates an empty context: for ``__init__``, or for a handle that arrives in a pickle."""
        self = super().__new__(cls)
        self._begin()
        return self

    def __init__(
        self,
        setup: Callable[..., Any],
        /,
        *args: Any,
        name: str | None = None,
        environment: str | os.PathLike[str] | None = None,
        files: Mapping[str, str | os.PathLike[str]] | Sequence[str | os.PathLike[str]] = (),
        resources: ContextResources | None = None,
        workers: ContextWorkers | None = None,
        calls: ContextCalls | None = None,
    ) -> None:
        if not callable(setup):
            raise TypeError(f"setup must be callable, not {_options.shown(setup)}")
        _coroutines.check(setup, "setup")
        # Workers that receive a context do not need this module.
        from gristmill._context import terms

        self.resources: ContextResources = terms.group(
            "resources", resources, terms.ContextResources
        )
        self.workers: ContextWorkers = terms.group("workers", workers, terms.ContextWorkers)
        self.calls: ContextCalls = terms.group("calls", calls, terms.ContextCalls)
        if name is not None:
            name = _options.text("name", name)
        if environment is not None and not isinstance(environment, (str, os.PathLike)):
            raise TypeError(f"environment must be a path, not {_options.shown(environment)}")
        self.setup = setup
        self.args = args
        self.environment = environment
        self.files = _files.declare(files)
        self.name: str = name or _name_of(setup)
        holds = self.resources
        self._demand = _resources.demand(holds.cores, holds.gpus, holds.memory)
        #: The reuse of the objects; benchmarks change it by ``with_reuse``.
        self._reuse = "memory"
        self._place = _place_of(sys._getframe(1).f_globals.get("__name__", "__main__"))

    def _begin(self) -> None:
        self._key: bytes | None = None
        self._description = b""
        #: File with the large parts of the arguments.
        self._file: Opened | None = None
        self._objects: dict[str, Any] | None = None
        self._local: held.Held | None = None
        #: Object that changes with each release. Functions that capture the context are then described anew, which
        #: announces the context to the engine.
        self._stamp = object()
        self._uses: weakref.WeakKeyDictionary[
            Executor | NestedExecutor, _native.ContextUse | _native.NestedContext
        ] = weakref.WeakKeyDictionary()

    def _check_made(self) -> None:
        """Raises ``RuntimeError`` if ``__init__`` was not called, for example by the ``__init__`` of a subclass."""
        if not hasattr(self, "_place"):
            raise RuntimeError("Context.__init__ was not called")

    # Access to the objects

    def __getitem__(self, name: str) -> Any:
        """Returns the object that the setup returned under this name.

        Raises ``KeyError`` for an unknown name, and ``ContextError`` if this process does not have the context.
        """
        objects = self._objects
        if objects is None:
            objects = self._find_objects()
        try:
            return objects[name]
        except KeyError:
            known = ", ".join(map(repr, objects)) or "nothing"
            raise KeyError(
                f"context {self.name!r} has no {name!r}: its setup returned {known}"
            ) from None

    def __contains__(self, name: object) -> bool:
        """Returns whether the setup returned an object under this name."""
        return name in (self._objects if self._objects is not None else self._find_objects())

    def __iter__(self) -> Iterator[str]:
        """Returns an iterator over the names of the objects that the setup returned."""
        return iter(self._objects if self._objects is not None else self._find_objects())

    def _find_objects(self) -> dict[str, Any]:
        self._check_made()
        objects = self._objects = held.objects_of(self)
        return objects

    # Tasks

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Runs ``fn(*args, **kwargs)`` in this context, in the newest executor that is not shut down.

        Returns the future. A task that has made no executor uses the executor that runs the task.
        """
        return self._options().submit(fn, *args, **kwargs)

    def map(self, fn: Callable[..., Any], /, *iterables: Any, **options: Any) -> Any:
        """Calls ``Executor.map`` in this context, on the newest executor that is not shut down."""
        return self._options().map(fn, *iterables, **options)

    def _options(self) -> Any:
        self._check_made()
        executor = _current()
        if executor is None:
            raise ValueError("no executor exists: make one first, to run the call")
        return executor.options(context=self)

    def report(self, executor: Executor | None = None) -> ContextReport | None:
        """Returns what the context cost in an executor; ``None`` if the executor has not used it, and inside tasks.

        :param executor: the executor; by default the newest one that is not shut down.
        """
        self._check_made()
        where = executor or _current()
        use = None if where is None else self._uses.get(where)
        report = None if use is None else use.report()
        if report is None:
            return None
        cores, parts, memory = report.pop("holds")
        from gristmill._context.terms import ContextResources

        gpus = parts / _resources.PARTS
        holds = ContextResources(cores=cores, gpus=gpus, memory=memory or None)
        return ContextReport(**report, holds=holds)

    def release(self) -> None:
        """Makes executors forget the context: its tasks complete, then its workers leave and free their memory.

        The next use sets the context up again.
        """
        self._check_made()
        for use in list(self._uses.values()):
            use.release()
        self._uses.clear()
        self._stamp = object()
        # The files may have other content when the context is used again.
        if self._is_whole and self.files:
            self._key = None

    # Use in this process

    def __enter__(self) -> Context:
        """Sets up the context in this process."""
        self._check_made()
        if self._local is not None:
            raise ContextError(f"context {self.name!r} is set up in this process already")
        if not self._is_whole:
            raise ContextError(
                f"context {self.name!r} cannot be set up in this process, which knows only its "
                "name: submit the task with options(context=...), or make the context in the task"
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
        """Runs the code after the ``yield`` of the setup."""
        self._check_made()
        local, self._local, self._objects = self._local, None, None
        if local is not None:
            try:
                local.end()
            finally:
                _files.leave()

    # Transfer to other processes

    @property
    def key(self) -> bytes:
        """Identity of the context: a hash of the setup's code, its arguments and the options."""
        if self._key is None:
            self._check_made()
            self._description = self._describe()
            self._key = blake2b(self._description, digest_size=held.KEY_SIZE).digest()
            _known[self._key] = self
        return self._key

    @property
    def description(self) -> bytes:
        """Description of the context that its workers receive."""
        return self.key + self._description

    @property
    def _is_auto(self) -> bool:
        return self.environment == AUTO

    def _describe(self) -> bytes:
        """Returns the description that workers receive, without the key."""
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
        return _worker_environment.dump(
            {
                "name": self.name,
                "place": self._place,
                "setup": setup,
                "args": args.pickled,
                "parts": args.parts,
                "preload": self.workers.preload,
                "timeout": self.workers.timeout,
                "mode": self.calls.mode,
                "reuse": self._reuse,
                "own_folder": self.calls.own_folder,
                "demand": self._demand,
                "environment": None if self._is_auto else packages.describe(self.environment),
                "is_auto": self._is_auto,
                # Layers of the caller's environment; filled in for nodes.
                "layers": [],
                "files": _files.describe(self.files, self.name),
            }
        )

    def _use(self, executor: Executor | NestedExecutor) -> Any:
        """Returns the use of this context in an executor, and defines it there for the first task that names it."""
        use = self._uses.get(executor)
        if use is None:
            use = self._uses[executor] = self._define(executor)
        return use

    def _define(
        self, executor: Executor | NestedExecutor
    ) -> _native.ContextUse | _native.NestedContext:
        if not isinstance(executor, _native.Engine):
            # The executor outside of this task knows the contexts that this worker has or has received in pickles.
            known = held.key_of(self) or (None if self._is_whole else self.key)
            if known is not None:
                return executor._define_context(self.name, known, (1, True, None, _NO_NEEDS))
        elif not self._is_whole:
            raise ContextError(
                f"context {self.name!r} was made in a task, and this program knows only its "
                "name: tasks of that task can use it, and tasks of this program cannot"
            )
        workers = self.workers
        most = workers.max_workers or _options.SHORT_MAX
        terms = (most, workers.fork, workers.keep, self._demand)
        if not isinstance(executor, _native.Engine):
            return executor._define_context(self.name, self.description, terms)
        description, parcel = pack_for(executor, self)
        address = id(self)
        _told[address] = weakref.ref(self, lambda _: _told.pop(address, None))
        return executor._define_context(self.name, description, terms, parcel)

    @property
    def _is_whole(self) -> bool:
        """Knowledge of the setup: true if this process made the context."""
        return hasattr(self, "setup")

    def _announce(self) -> None:
        """Announces the context to the executors of this process: a pickle names it only by its key."""
        if self._is_whole:
            for executor in _running():
                self._use(executor)

    def __reduce__(self) -> Any:
        self._announce()
        return arrive, (self.key, self.name, self._place)

    def __repr__(self) -> str:
        name = getattr(self, "name", None)
        return object.__repr__(self) if name is None else f"<Context {name!r}>"


# Gives ``Context`` the signature of ``__init__``, for ``help()`` and ``inspect``.
Context.__new__.__wrapped__ = Context.__init__  # type: ignore[attr-defined]


def reports(executor: Executor) -> list[tuple[str, ContextReport]]:
    """Returns the key and the report of each context of an executor, ordered by name."""
    contexts = [reference() for reference in list(_told.values())]
    found = [(one.key.hex(), one.report(executor)) for one in contexts if one is not None]
    there = [(key, report) for key, report in found if report is not None]
    return sorted(there, key=lambda one: one[1].name)


def arrive(key: bytes, name: str, place: tuple[str, int]) -> Context:
    """Returns the context that a pickle names: that of this process, or a handle to the context of its worker."""
    context = _known.get(key)
    if context is None:
        context = Context.__new__(Context)
        context.name, context._place = name, place
        context._key = key
        _known[key] = context
    return context


def with_reuse(context: Context, reuse: str) -> Context:
    """Returns the context, which is then set up again for each call: for benchmarks of what a context gains.

    :param reuse: ``"memory"`` keeps the context in memory, as contexts do. ``"disk"`` and ``"none"`` set it up again
        for each call, in a new interpreter (levels L2 and L1 of the paper). With ``"none"`` nodes receive nothing, and
        find environment and files under the same paths.
    """
    context._reuse = _options.one_of("reuse", reuse, ("memory", "disk", "none"))
    context._key = None
    return context


def check_named(context: object, needs: tuple[int, int, int]) -> None:
    """Checks the context of a task and the resources that the task asks for.

    Raises ``TypeError`` if ``context`` is no context, and ``ResourceError`` if the task asks for resources of its own.
    """
    if not isinstance(context, Context):
        raise TypeError(f"context must be a gristmill.Context, not {context!r}")
    context._check_made()
    if needs != _NO_NEEDS:
        raise ResourceError(
            f"a task in context {context.name!r} has the resources of its context's workers: it "
            "cannot request cores, GPUs or memory of its own"
        )


def _current() -> Executor | NestedExecutor | None:
    """Returns the newest living executor; in a task that has made none, the executor that runs the task."""
    module = sys.modules.get("gristmill._executor")
    # While another thread loads the module, no executor exists.
    newest: Executor | None = getattr(module, "newest", lambda: None)()
    return newest if newest is not None else _around()


def _running() -> list[Executor | NestedExecutor]:
    """Returns the executors of this process whose engines have started, and the executor that runs the current task."""
    module = sys.modules.get("gristmill._executor")
    living = [one for one in [*getattr(module, "_living", ())] if one._has_started()]
    around = _around()
    return living if around is None else [*living, around]


def _around() -> NestedExecutor | None:
    """Returns the executor that runs the task of this thread; ``None`` outside tasks."""
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
    """Returns the module and the number of a new context in it. A worker that imports the module gets the same pair."""
    number = _made[module] = _made.get(module, 0) + 1
    return module, number
