"""``python_app``, ``bash_app`` and ``join_app``: functions whose calls are tasks of a data-flow kernel."""

from __future__ import annotations

import functools
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

from gristmill._options import shown
from gristmill.parsl._kernel.bash import run_command
from gristmill.parsl._kernel.loader import dfk
from gristmill.parsl._kernel.walltime import limited, seconds_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gristmill._context.declare import Context

#: Arguments that the kernel interprets. Their defaults come from the app's own signature.
_SPECIAL = ("stdout", "stderr", "walltime", "parsl_resource_specification", "outputs", "inputs")


class AppBase:
    """A function whose calls are tasks.

    :param func: the function.
    :param data_flow_kernel: runs the calls. If not given, each call uses the kernel that is loaded at that time.
    :param executors: ``"all"``, or labels of executors that may run it.
    :param cache: whether results are remembered and reused.
    :param ignore_for_cache: named arguments that the cache ignores.
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
        _check_binding(data_flow_kernel, context)
        self.__name__ = name_of(func)
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
        """Submits one call and returns its ``AppFuture``."""
        raise NotImplementedError

    def __reduce__(self) -> Any:
        # Pickles apps that a task's function refers to. The kernel is left out: a worker has no kernel.
        options: dict[str, Any] = {
            "executors": self.executors,
            "cache": self.cache,
            "ignore_for_cache": self.ignore_for_cache,
            "context": self.context,
        }
        return functools.partial(type(self), self.func, **options), ()

    def _submit(self, kernel: Any, function: Callable[..., Any], **call: Any) -> Any:
        # Only Gristmill's kernel accepts a context.
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
    """A Python function whose calls run on the executors.

    :param func: the function.
    :param data_flow_kernel: runs the calls. If not given, each call uses the kernel that is loaded at that time.
    :param cache: whether results are remembered and reused.
    :param executors: ``"all"``, or labels of executors that may run it.
    :param ignore_for_cache: named arguments that the cache ignores.
    :param join: whether the function returns futures, whose values become the values of the calls.
    :param context: a ``gristmill.Context`` that the calls run in.
    """

    def __init__(
        self,
        func: Callable[..., Any],
        data_flow_kernel: Any = None,
        cache: bool = False,
        executors: Sequence[str] | str = "all",
        ignore_for_cache: Sequence[str] | None = None,
        join: bool = False,
        context: Context | None = None,
    ) -> None:
        super().__init__(func, data_flow_kernel, executors, cache, ignore_for_cache, context)
        self.join = join

    #: The kernel of the last call, and the submit function for plain calls to it, or ``None`` if it has none.
    kept_way: tuple[Any, Any] | None = None

    @property
    def plain_function(self) -> Callable[..., Any]:
        """The function that a worker of the engine calls."""
        return self.func

    @property
    def has_inert_defaults(self) -> bool:
        """True if no default of a special argument asks for anything."""
        return not any(self.kwargs.values())

    def submit_plainly(self, kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Submits a call that needs no step of the graph. For any other call, returns ``None`` and does nothing."""
        kept = self.kept_way
        way = kept[1] if kept is not None and kept[0] is kernel else kernel.fast_paths.of(self)
        return way(args, kwargs) if way is not None else None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Submits one call and returns its ``AppFuture``."""
        kernel = dfk() if self.data_flow_kernel is None else self.data_flow_kernel
        # Repeats the body of submit_plainly: a call to it would add a twentieth to the cost of a submission.
        kept = self.kept_way
        way = kept[1] if kept is not None and kept[0] is kernel else kernel.fast_paths.of(self)
        if way is not None and (future := way(args, kwargs)) is not None:
            return future
        named = {**_copied(self.kwargs), **kwargs}
        seconds = seconds_of(named.get("walltime"))
        function = self.func if seconds is None else limited(self.func, seconds)
        return self._submit(kernel, function, app_args=args, app_kwargs=named, join=self.join)


class BashApp(AppBase):
    """A function that returns a command line, which runs on the executors. It has the parameters of ``PythonApp``."""

    def __init__(
        self,
        func: Callable[..., Any],
        data_flow_kernel: Any = None,
        cache: bool = False,
        executors: Sequence[str] | str = "all",
        ignore_for_cache: Sequence[str] | None = None,
        context: Context | None = None,
    ) -> None:
        super().__init__(func, data_flow_kernel, executors, cache, ignore_for_cache, context)
        command = functools.partial(run_command, func)
        self.wrapped_remote_function = functools.update_wrapper(command, func)

    def _defaults(self) -> dict[str, Any]:
        # All defaults: the function may use any of its arguments in the command line.
        parameters = _parameters(self.func).items()
        return {name: one.default for name, one in parameters if one.default is not Parameter.empty}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Submits one call and returns its ``AppFuture``."""
        kernel = dfk() if self.data_flow_kernel is None else self.data_flow_kernel
        named = {**_copied(self.kwargs), **kwargs}
        if "walltime" in named:
            named["walltime"] = seconds_of(named["walltime"])
        return self._submit(kernel, self.wrapped_remote_function, app_args=args, app_kwargs=named)


def _parameters(function: Callable[..., Any]) -> Mapping[str, Parameter]:
    try:
        return signature(function).parameters
    except ValueError:
        # A built-in function without a signature. It has no arguments that the kernel interprets.
        return {}


def _copied(defaults: dict[str, Any]) -> dict[str, Any]:
    """Copies the defaults for one call: staging changes lists, and must not change those of the function."""
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

    :param data_flow_kernel: runs the calls. If not given, each call uses the kernel that is loaded at that time.
    :param cache: whether results are remembered and reused.
    :param executors: ``"all"``, or a list of labels of executors that may run it.
    :param ignore_for_cache: named arguments that ``cache`` ignores.
    :param context: a ``gristmill.Context`` that the calls run in. Each worker sets it up once and keeps it.

    The kernel interprets these arguments of a call: ``inputs``, ``outputs``, ``walltime`` in seconds and
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
    """Makes an app of a function that calls apps and returns their future, or a list of futures.

    The function runs in a thread of the submitting process. The value of the task is the value of that future, or the
    list of values.
    """
    make = functools.partial(
        PythonApp,
        data_flow_kernel=data_flow_kernel,
        executors=["_parsl_internal"],
        join=True,
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
    """Makes an app of a function that returns a command line for bash. The value of a call is the exit code, 0.

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


def name_of(function: Callable[..., Any]) -> str:
    """Returns the name of a function. For callable objects, such as partial functions, it is the name of their type."""
    name: str = getattr(function, "__name__", type(function).__name__)
    return name


def _check(function: object, executors: object, cache: object, ignore_for_cache: object) -> None:
    """Checks an app's arguments at its declaration, before its first call. Raises ``TypeError`` for wrong types."""
    if not callable(function):
        raise TypeError(f"an app needs a function, not {shown(function)}")
    is_all = isinstance(executors, str) and executors == "all"
    if not is_all and not (_are_texts(executors) and executors):
        raise TypeError(f'executors must be "all" or a list of labels, not {shown(executors)}')
    if not isinstance(cache, bool):
        raise TypeError(f"cache must be True or False, not {shown(cache)}")
    if ignore_for_cache is not None and not _are_texts(ignore_for_cache):
        given = shown(ignore_for_cache)
        raise TypeError(f"ignore_for_cache must be a list of names, not {given}")


def _are_texts(value: object) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value)


def _check_binding(kernel: object, context: object) -> None:
    if kernel is not None and not hasattr(kernel, "submit"):
        raise TypeError(f"data_flow_kernel must be a DataFlowKernel, not {shown(kernel)}")
    if context is not None:
        from gristmill._context.declare import Context

        if not isinstance(context, Context):
            raise TypeError(f"context must be a gristmill.Context, not {shown(context)}")
