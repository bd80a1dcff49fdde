"""``python_app``, ``bash_app`` and ``join_app``: functions whose calls are tasks of a data-flow kernel."""

from __future__ import annotations

import functools
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

from gristmill.parsl.bash import run_command
from gristmill.parsl.loader import dfk
from gristmill.parsl.walltime import limited

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gristmill._context.declare import Context

#: Arguments that mean something to the kernel; their defaults are those of the app's own signature.
_SPECIAL = ("stdout", "stderr", "walltime", "parsl_resource_specification", "outputs", "inputs")


class AppBase:
    """A function whose calls are tasks.

    :param func: the function.
    :param data_flow_kernel: runs the calls; the loaded one at the time of each call if not given.
    :param executors: ``"all"``, or labels of executors that may run it.
    :param cache: whether results are remembered and reused.
    :param ignore_for_cache: named arguments that do not matter for that.
    :param context: a ``gristmill.Context`` that the calls run in.
    """

    def __init__(
        self,
        func: Callable[..., Any],
        data_flow_kernel: Any = None,
        executors: Sequence[str] | str = "all",
        cache: bool = False,
        ignore_for_cache: Sequence[str] | None = None,
        context: Context | None = None,
    ) -> None:
        _check(func, executors, cache, ignore_for_cache)
        self.__name__ = func.__name__
        self.__doc__ = func.__doc__
        self.__wrapped__ = func
        self.func = func
        self.data_flow_kernel = data_flow_kernel
        self.executors = executors
        self.cache = cache
        self.ignore_for_cache = ignore_for_cache
        self.context = context
        self.kwargs = self._defaults()

    def _defaults(self) -> dict[str, Any]:
        parameters = _parameters(self.func)
        return {
            name: parameters[name].default
            for name in _SPECIAL
            if name in parameters and parameters[name].default is not Parameter.empty
        }

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Submits one call; gives its ``AppFuture``."""
        raise NotImplementedError

    def __reduce__(self) -> Any:
        # For apps that a task's function mentions. The kernel stays here: a worker has none.
        options = (None, self.executors, self.cache, self.ignore_for_cache, self.context)
        return type(self), (self.func, *options)

    def _submit(self, kernel: Any, function: Callable[..., Any], **call: Any) -> Any:
        # A kernel that is not Gristmill's knows no contexts.
        context = {} if self.context is None else {"context": self.context}
        return kernel.submit(
            function,
            executors=self.executors,
            cache=self.cache,
            ignore_for_cache=self.ignore_for_cache,
            **call,
            **context,
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.__name__}>"


class PythonApp(AppBase):
    """A Python function whose calls run on the executors."""

    join = False
    #: The kernel of the last call, and the way that plain calls take there, if they have one.
    kept_way: tuple[Any, Any] | None = None

    @property
    def plain_function(self) -> Callable[..., Any]:
        """What a worker of the engine is to call."""
        return self.func

    @property
    def has_inert_defaults(self) -> bool:
        """Whether the defaults of special arguments ask for nothing."""
        return not any(self.kwargs.values())

    def submit_plainly(self, kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Submits a call that needs no step of the graph; ``None``, and nothing has happened, if it is not one."""
        kept = self.kept_way
        way = kept[1] if kept is not None and kept[0] is kernel else kernel.lanes.of(self)
        return way(args, kwargs) if way is not None else None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Submits one call; gives its ``AppFuture``."""
        kernel = self.data_flow_kernel or dfk()
        # As submit_plainly, whose frame would be a twentieth of what a call costs.
        kept = self.kept_way
        way = kept[1] if kept is not None and kept[0] is kernel else kernel.lanes.of(self)
        if way is not None and (future := way(args, kwargs)) is not None:
            return future
        named = {**_copied(self.kwargs), **kwargs}
        walltime = named.get("walltime")
        function = self.func if walltime is None else limited(self.func, walltime)
        return self._submit(kernel, function, app_args=args, app_kwargs=named, join=self.join)


class JoinApp(PythonApp):
    """A function that runs in the submitting process and gives futures: the task's value is theirs."""

    join = True


class BashApp(AppBase):
    """A function that gives a command line, which runs on the executors."""

    def __init__(self, func: Callable[..., Any], *options: Any, **named: Any) -> None:
        super().__init__(func, *options, **named)
        command = functools.partial(run_command, func)
        self.wrapped_remote_function = functools.update_wrapper(command, func)

    def _defaults(self) -> dict[str, Any]:
        # All of them: the command line may be made from any.
        parameters = _parameters(self.func).items()
        return {name: one.default for name, one in parameters if one.default is not Parameter.empty}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Submits one call; gives its ``AppFuture``."""
        kernel = self.data_flow_kernel or dfk()
        named = {**_copied(self.kwargs), **kwargs}
        return self._submit(kernel, self.wrapped_remote_function, app_args=args, app_kwargs=named)


def _parameters(function: Callable[..., Any]) -> Mapping[str, Parameter]:
    try:
        return signature(function).parameters
    except ValueError:
        # A built-in function that does not say: it has no arguments that mean something to the kernel.
        return {}


def _copied(defaults: dict[str, Any]) -> dict[str, Any]:
    """The defaults for one call: staging changes lists, which must not be the function's own."""
    return {name: list(value) if type(value) is list else value for name, value in defaults.items()}


def python_app(
    function: Callable[..., Any] | None = None,
    data_flow_kernel: Any = None,
    cache: bool = False,
    executors: Sequence[str] | str = "all",
    ignore_for_cache: Sequence[str] | None = None,
    context: Context | None = None,
) -> Any:
    """Makes an app of a Python function: ``@python_app`` or ``@python_app(cache=True)``.

    :param data_flow_kernel: runs the calls; the loaded one at the time of each call if not given.
    :param cache: whether results are remembered and reused.
    :param executors: ``"all"``, or a list of labels of executors that may run it.
    :param ignore_for_cache: named arguments that do not matter to ``cache``.
    :param context: a ``gristmill.Context`` that the calls run in: set up once for each worker, and kept there.

    Arguments of the call that mean something to the kernel: ``inputs``, ``outputs``, ``walltime`` in seconds,
    ``parsl_resource_specification``. Raises ``TypeError`` for arguments of other types.
    """
    make = functools.partial(
        PythonApp,
        data_flow_kernel=data_flow_kernel,
        executors=executors,
        cache=cache,
        ignore_for_cache=ignore_for_cache,
        context=context,
    )
    return make if function is None else make(function)


def join_app(
    function: Callable[..., Any] | None = None,
    data_flow_kernel: Any = None,
    cache: bool = False,
    ignore_for_cache: Sequence[str] | None = None,
) -> Any:
    """Makes an app of a function that calls apps and gives their future, or a list of futures.

    The function runs in a thread of the submitting process; the task's value is the futures' value or list of values.
    """
    make = functools.partial(
        JoinApp,
        data_flow_kernel=data_flow_kernel,
        executors=["_parsl_internal"],
        cache=cache,
        ignore_for_cache=ignore_for_cache,
    )
    return make if function is None else make(function)


def bash_app(
    function: Callable[..., Any] | None = None,
    data_flow_kernel: Any = None,
    cache: bool = False,
    executors: Sequence[str] | str = "all",
    ignore_for_cache: Sequence[str] | None = None,
    context: Context | None = None,
) -> Any:
    """Makes an app of a function that gives a command line for bash; the value of a call is the exit code, 0.

    ``stdout`` and ``stderr`` of a call name files: a path, a path with a mode, a ``File`` that is staged out, or
    ``AUTO_LOGNAME``.
    """
    make = functools.partial(
        BashApp,
        data_flow_kernel=data_flow_kernel,
        executors=executors,
        cache=cache,
        ignore_for_cache=ignore_for_cache,
        context=context,
    )
    return make if function is None else make(function)


def _check(function: object, executors: object, cache: object, ignore_for_cache: object) -> None:
    """Finds what cannot be meant where it is written, not where it is first called."""
    if not callable(function):
        raise TypeError(f"an app is made of a function, not of {function!r}")
    is_labels = isinstance(executors, (list, tuple)) and all(
        isinstance(one, str) for one in executors
    )
    if executors != "all" and not is_labels:
        raise TypeError(f'executors must be "all" or a list of labels, not {executors!r}')
    if not isinstance(cache, bool):
        raise TypeError(f"cache must be True or False, not {cache!r}")
    if ignore_for_cache is not None and isinstance(ignore_for_cache, str):
        raise TypeError(f"ignore_for_cache must be a list of names, not {ignore_for_cache!r}")
