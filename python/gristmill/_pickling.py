"""Pickles of values that the native encoding does not handle: by cloudpickle, with futures as holes for their values.

A pickle of ours is the number of parents as four little-endian bytes, then the bytes of protocol 5. Functions and
classes of ``__main__``, lambdas and closures go by value, everything importable by name. ``_unpickling`` reads it. The
first caller that pickles loads this module: cloudpickle takes longer to import than all of Gristmill.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import pickle
import sys
import types
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import cloudpickle

from gristmill import (
    _annotations,
    _classes,
    _coroutines,
    _dependencies,
    _descriptors,
    _modules,
    _native,
    _unpickling,
)
from gristmill._dependencies import Dependency
from gristmill._errors import UnpicklableError
from gristmill._unpickling import COUNT_SIZE

#: Bytes below which a buffer stays in the pickle.
BLOCK_MIN = _native.BLOCK_MIN
_FOREIGN = "an argument is a future of another executor: pass its result()"


def _is_found_by_name(function: Any) -> bool:
    """Returns whether any process finds this very object under its name, so that pickle may write the name."""
    name = getattr(function, "__module__", None)
    found: Any = sys.modules.get(name or "__main__")
    for part in function.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is function and _modules.goes_by_name(name)


def _is_by_reference(obj: Any) -> bool:
    """Returns whether a function or a class goes by name: workers can import its module and find it there."""
    name: Any = getattr(obj, "__module__", None)
    if name not in sys.modules and _modules.is_of_installed_package(name):
        # A public name for an object that a package defines elsewhere, such as numpy.rec.recarray.
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    if not cloudpickle.cloudpickle._should_pickle_by_reference(obj):
        return False
    # Cloudpickle found an object that names no module in one of the modules.
    return name is None or _modules.goes_by_name(name)


def is_imported(module: types.ModuleType) -> bool:
    """Returns whether a worker gets a module by importing it."""
    # Other ways to read the name would load a lazy module.
    name = object.__getattribute__(module, "__dict__").get("__name__")
    return name == "__main__" or (sys.modules.get(name) is module and _modules.goes_by_name(name))


#: Classes that have no name, or another one, which cloudpickle knows.
_BUILT_IN = {
    type(None),
    type(...),
    type(NotImplemented),
    *cloudpickle.cloudpickle._BUILTIN_TYPE_NAMES,
}


def _is_base_by_reference(base: type) -> bool:
    return base in _BUILT_IN or _is_by_reference(base)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickler that writes each future as a hole and remembers it."""

    def __init__(
        self,
        file: io.BytesIO,
        is_for_task: bool,
        buffers: list[Any] | None,
        has_hints: bool = False,
        needs: list[Dependency] | None = None,
        shared: Dependency | None = None,
    ) -> None:
        take = None if buffers is None else _taker(buffers)
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL, buffer_callback=take)
        self._file = file
        self.futures: list[Any] = []
        #: The index of each future, by its address. The list keeps the address in use.
        self._places: dict[int, int] = {}
        self._is_for_task = is_for_task
        #: True if what string annotations name comes with functions and classes by value.
        self._has_hints = has_hints
        self.has_sent_hints = False
        #: The cell that stands for a variable of functions in the pickle, by the address of its own cell.
        self._cells: dict[int, types.CellType] = {}
        #: Gets what goes by digest; ``None`` if nothing does.
        self._needs = needs
        #: The one of them that is pickled here itself.
        self._shared = shared

    def dumped(self, value: Any) -> tuple[bytes, list[Any]]:
        """Returns a pickle of ours, and the futures in the order of their holes."""
        self._file.write(bytes(COUNT_SIZE))
        self.dump(value)
        view = self._file.getbuffer()
        view[:COUNT_SIZE] = len(self.futures).to_bytes(COUNT_SIZE, "little")
        return view.tobytes(), self.futures

    def reducer_override(self, obj: Any) -> Any:
        kind = type(obj)
        if issubclass(kind, (_native.Future, _native.Ticket)):
            return _unpickling.fill, (self._index(obj),)
        if self._is_for_task and issubclass(kind, Future):
            raise _native.ForeignFutureError(_FOREIGN)
        if self._needs is not None and issubclass(kind, Dependency):
            return self._reduce_dependency(obj, self._needs)
        if issubclass(kind, type):
            if obj in _BUILT_IN or _is_by_reference(obj):
                return super().reducer_override(obj)
            hints = _annotations.of_class(obj) if self._has_hints else {}
            self.has_sent_hints |= bool(hints)
            return _classes.reduce_class(obj, _is_base_by_reference, hints)
        if kind is types.FunctionType:
            return NotImplemented if _is_by_reference(obj) else self._dynamic_function_reduce(obj)
        if kind is types.ModuleType and not is_imported(obj):
            return _classes.reduce_module(obj)
        reduce = _classes.REDUCERS.get(kind)
        if reduce is not None:
            return reduce(obj)
        if kind is functools._lru_cache_wrapper and not _is_found_by_name(obj):
            return _reduce_cached(obj)
        if issubclass(kind, _descriptors.BASES) and _descriptors.is_reduced(kind):
            return _descriptors.reduce_derived(obj)
        if self._is_for_task:
            handle = handle_of(obj)
            if handle is not None:
                return handle
        return super().reducer_override(obj)

    def _reduce_dependency(self, obj: Dependency, needs: list[Dependency]) -> tuple[Any, ...]:
        if obj is self._shared:
            return obj.reduced()
        needs.append(obj)
        # A function gets it ready for calls, what depends on it only names it.
        found = _dependencies.prepared if self._shared is None else _dependencies.arrived
        return found, (obj.digest(),)

    def _function_getnewargs(self, func: Any) -> tuple[Any, ...]:
        *others, cells = super()._function_getnewargs(func)
        if cells is not None:
            # Functions that share a variable share its cell. Cloudpickle makes one for each function.
            own = zip(func.__closure__, cells, strict=True)
            cells = tuple(self._cells.setdefault(id(cell), made) for cell, made in own)
        return *others, cells

    def _dynamic_function_reduce(self, func: Any) -> Any:
        reduced = super()._dynamic_function_reduce(func)
        if self._has_hints:
            sent: dict[str, Any] = reduced[2][1]["__globals__"]
            hints = _annotations.of_function(func)
            self.has_sent_hints |= bool(hints.keys() - sent.keys())
            for name, value in hints.items():
                sent.setdefault(name, value)
        return reduced

    def _index(self, future: Any) -> int:
        index = self._places.get(id(future))
        if index is not None:
            return index
        self.futures.append(future)
        self._places[id(future)] = len(self.futures) - 1
        return len(self.futures) - 1


def _reduce_cached(function: Any) -> tuple[Any, ...]:
    parameters = function.cache_parameters()
    wrapped = function.__wrapped__
    arguments = wrapped, parameters["maxsize"], parameters["typed"]
    made = {"__wrapped__", "cache_parameters", *functools.WRAPPER_ASSIGNMENTS}
    made.update(getattr(wrapped, "__dict__", ()))
    own = {name: value for name, value in vars(function).items() if name not in made}
    return _unpickling.cached, arguments, own or None


class ValuePickler(_Pickler):
    """Pickler for the contents of results, including classes by value."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, is_for_task=False, buffers=None)


def handle_of(obj: Any) -> Any:
    """Returns the reduction of an executor for one of its tasks, where it becomes the executor that runs the task.

    Returns ``None`` for other objects.
    """
    if isinstance(obj, (_native.Engine, _native.BoundEngine)):
        from gristmill import _nested

        if isinstance(obj, _native.Engine):
            return _nested._received, ()
        return _nested._received_bound, (obj._values,)
    # Another thread may be loading the module and may not have made the classes yet.
    nested: Any = sys.modules.get("gristmill._nested")
    if type(obj) is getattr(nested, "NestedExecutor", None):
        return nested._received, ()
    if type(obj) is getattr(nested, "NestedBoundExecutor", None):
        return nested._received_bound, (obj._values,)
    return None


def _taker(buffers: list[Any]) -> Callable[[pickle.PickleBuffer], bool]:
    """Returns a callback that takes large contiguous buffers out of a pickle. Other buffers stay in it."""

    def take(buffer: pickle.PickleBuffer) -> bool:
        _native.return_lent(buffer)
        try:
            raw = buffer.raw()
        except BufferError:
            return True
        if raw.nbytes < BLOCK_MIN:
            return True
        buffers.append(raw)
        return False

    return take


def _dump(
    value: Any,
    is_for_task: bool = False,
    buffers: list[Any] | None = None,
    needs: list[Dependency] | None = None,
) -> tuple[bytes, list[Any]]:
    taken = 0 if buffers is None else len(buffers)
    pickler = _Pickler(io.BytesIO(), is_for_task, buffers, has_hints=is_for_task, needs=needs)
    try:
        return pickler.dumped(value)
    except Exception:
        if not pickler.has_sent_hints:
            raise
    # A name that only an annotation has must not keep a value from tasks.
    if buffers is not None:
        del buffers[taken:]
    if needs is not None:
        needs.clear()
    return _Pickler(io.BytesIO(), is_for_task, buffers, needs=needs).dumped(value)


def dump_dependency(value: Dependency, needs: list[Dependency]) -> bytes:
    """Pickles what functions share. Appends what it names itself to ``needs``. Raises the exceptions of pickling."""
    pickler = _Pickler(io.BytesIO(), is_for_task=True, buffers=None, needs=needs, shared=value)
    return pickler.dumped(value)[0]


def dump_call(
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
    buffers: list[Any] | None = None,
    needs: list[Dependency] | None = None,
) -> tuple[bytes, list[Any]]:
    """Pickles the arguments of a call. Returns the bytes, and the futures in the order of their holes.

    Appends large buffers to ``buffers`` instead, if it is given, and what goes by digest to ``needs``.

    Raises ``UnpicklableError``, which names the part that cannot be pickled, and ``ForeignFutureError`` for a
    future of another executor.
    """
    try:
        return _dump((args, kwargs or {}), True, buffers, needs)
    except _native.ForeignFutureError:
        raise
    except Exception as error:
        named = [(f"argument {index}", value) for index, value in enumerate(args)]
        named += [(f"argument {name!r}", value) for name, value in (kwargs or {}).items()]
        raise _explained(named, error, True) from error


def dump_value(
    value: Any,
    buffers: list[Any] | None = None,
    *,
    is_for_task: bool = False,
    named: list[tuple[str, Any]] | None = None,
    needs: list[Dependency] | None = None,
) -> bytes:
    """Pickles one value that holds no futures; ``buffers`` as in ``dump_call``. Raises ``UnpicklableError``.

    :param is_for_task: a task will receive the value, so an executor in it becomes the one that runs the task.
    :param named: the names that messages use for the parts of the value.
    :param needs: gets the objects that the value shares with others, which then go by digest.
    """
    try:
        pickled, futures = _dump(value, is_for_task, buffers, needs)
        if futures:
            raise TypeError(
                "it contains a future: pass the future as an argument of its own, or pass its result()"
            )
        return pickled
    except Exception as error:
        if _coroutines.close(value):
            raise UnpicklableError(
                f"the task returned a {type(value).__name__}, which cannot leave its process: "
                "run it in the task, as asyncio.run(f()), and return its result"
            ) from error
        named = named or [(f"the {type(value).__qualname__}", value)]
        raise _explained(named, error, is_for_task) from error


def dump_plain(value: Any) -> bytes:
    """Pickles a value so that ``pickle.loads`` reads it. Raises the exceptions of pickling."""
    file = io.BytesIO()
    pickler = ValuePickler(file)
    pickler.dump(value)
    if pickler.futures:
        raise TypeError("it contains a future")
    return file.getvalue()


_MULTIPROCESSING = (
    "locks, queues and events of multiprocessing go only to processes that it starts itself; use those of "
    "multiprocessing.Manager()"
)
#: Advice for values of a type, or of a package's types, that cannot be sent.
_HINTS = {
    "multiprocessing": _MULTIPROCESSING,
    "_multiprocessing": _MULTIPROCESSING,
    "_thread.lock": "make the lock in the task, or leave it out of the object's state (__getstate__)",
    "_thread.RLock": "make the lock in the task, or leave it out of the object's state (__getstate__)",
    "builtins.generator": "pass a list of its items",
    "_io": "pass the path, and open the file in the task",
    "socket.socket": "pass the address, and connect in the task",
    "sqlite3.Connection": "pass the path, and connect in the task",
}
#: The largest number of values that are pickled to find the one at fault.
_TRIES_MAX = 300


def _explained(
    named: list[tuple[str, Any]], error: Exception, is_for_task: bool
) -> UnpicklableError:
    from gristmill._reasons import reason_of

    reason = reason_of(error)
    tries = [_TRIES_MAX]
    for name, value in named:
        culprit = _find_culprit(name, value, is_for_task, 8, tries)
        if culprit is not None:
            path, kind = culprit
            full_name = f"{kind.__module__}.{kind.__qualname__}"
            hint = _HINTS.get(full_name) or _HINTS.get(full_name.partition(".")[0])
            advice = f"; {hint}" if hint else ""
            return UnpicklableError(
                f"{path} ({kind.__qualname__}) cannot be pickled: {reason}{advice}"
            )
    return UnpicklableError(f"the arguments cannot be pickled: {reason}")


def _find_culprit(
    path: str, value: Any, is_for_task: bool, depth: int, tries: list[int]
) -> tuple[str, type] | None:
    """Finds the innermost part that does not pickle on its own. Returns its path and its type, or ``None``."""
    if not tries[0]:
        return None
    tries[0] -= 1
    try:
        _dump(value, is_for_task)
    except Exception:
        for name, part in _parts(path, value) if depth else ():
            culprit = _find_culprit(name, part, is_for_task, depth - 1, tries)
            if culprit is not None:
                return culprit
        return path, type(value)
    return None


def _parts(path: str, value: Any) -> list[tuple[str, Any]]:
    """Returns the parts of a value with their paths. Avoids the value's own methods, which may raise."""
    kind = type(value)
    if issubclass(kind, dict):
        return [(f"{path}[{_shown(key)}]", part) for key, part in dict.items(value)]
    if issubclass(kind, (list, tuple, set, frozenset)):
        return [(f"{path}[{index}]", part) for index, part in enumerate(kind.__iter__(value))]
    if kind is types.MethodType:
        return [(f"{path}.__self__", value.__self__), (f"{path}.__func__", value.__func__)]
    if kind is functools.partial:
        parts = [(f"{path}.func", value.func)]
        parts += [(f"{path}.args[{index}]", part) for index, part in enumerate(value.args)]
        return parts + [(f"{path}.keywords[{name!r}]", p) for name, p in value.keywords.items()]
    parts = [(f"{path}.{name}", part) for name, part in _attributes(value)]
    if kind is types.FunctionType:
        code = value.__code__
        for name, cell in zip(code.co_freevars, value.__closure__ or (), strict=False):
            with contextlib.suppress(ValueError):  # a cell that is still empty
                parts.append((f"{path} captures {name!r}", cell.cell_contents))
        for index, part in enumerate(value.__defaults__ or ()):
            parts.append((f"{path} has the default {index}", part))
        for name, part in (value.__kwdefaults__ or {}).items():
            parts.append((f"{path} has the default {name!r}", part))
        used = value.__globals__
        parts += [
            (f"{path} uses the global {name!r}", used[name])
            for name in code.co_names
            if name in used
        ]
    return parts


def _attributes(value: Any) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    with contextlib.suppress(Exception):
        attributes = object.__getattribute__(value, "__dict__")
        if type(attributes) is dict:
            found += attributes.items()
    for owner in type(value).__mro__:
        if "__slots__" not in vars(owner):
            continue
        for name, member in vars(owner).items():
            if type(member) is types.MemberDescriptorType:
                with contextlib.suppress(Exception):
                    found.append((name, member.__get__(value)))
    return found


def _shown(key: Any) -> str:
    try:
        return repr(key)
    except Exception:
        return f"a {type(key).__qualname__}"
