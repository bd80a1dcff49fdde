"""Reducers that cloudpickle lacks, for classes and functions that are sent by value.

Sent by value are definitions in ``__main__``, in notebooks, and inside functions.

Classes keep their slots, and the attributes that are the same objects as those of their bases. The hooks of a class
statement (``__init_subclass__`` and a metaclass's constructor) run again only if they come from a class by name, which
may keep a register. If one fails because it needs what only the class statement had, the class is made without it. A
class that comes back to the process it came from stays as it is there. Caches and context variables arrive empty, as in
a new process. Locks of ``cached_property`` are made anew.
"""

from __future__ import annotations

import abc
import contextlib
import contextvars
import dataclasses
import enum
import functools
import operator
import os
import struct
import sys
import threading
import types
import typing
import uuid
import weakref
from typing import Any

from cloudpickle import cloudpickle

from gristmill import _annotations, _enums, _extension_classes, _modules

if typing.TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

#: Attributes that only the class statement can set. ``type`` itself provides attributes of these names, so they cannot
#: be set later.
_IN_STATEMENT = (
    "__base__",
    "__bases__",
    "__basicsize__",
    "__class__",
    "__dictoffset__",
    "__flags__",
    "__itemsize__",
    "__mro__",
    "__name__",
    "__text_signature__",
    "__weakrefoffset__",
)
#: Attributes that each process makes for itself.
_OF_PROCESS = (
    "__weakref__",
    "__dict__",
    "__annotate_func__",
    "__slotnames__",
    "_abc_cache",
    "_abc_impl",
    "_abc_negative_cache",
    "_abc_negative_cache_version",
)
#: Attributes of an enum that its metaclass makes.
_OF_ENUM = (
    "_member_map_",
    "_member_names_",
    "_member_type_",
    "_value2member_map_",
)
#: Values that go by value even if a base that goes by name has them too.
_PLAIN = (type(None), bool, int, float, complex, str, bytes)
#: Classes that this process made from pickles, each with the names that the last pickle set. Only these classes take on
#: what a later pickle says of them.
_received: weakref.WeakKeyDictionary[type, frozenset[str]] = weakref.WeakKeyDictionary()
#: Context variables by the key that names each in all processes, and the keys by variable.
_variables: dict[str, contextvars.ContextVar[Any]] = {}
_names_of_variables: dict[contextvars.ContextVar[Any], str] = {}


def reduce_class(
    cls: type, is_by_name: Callable[[type], bool], hints: dict[str, Any]
) -> tuple[Any, ...]:
    """Returns the reduction of a class that goes by value.

    :param is_by_name: says of a base whether it goes by name.
    :param hints: what the annotations of the class name, for ``_annotations.provide``.
    """
    if issubclass(cls, enum.Enum):
        state = *_class_state(cls, is_by_name), hints, _enums.state(cls)
        tracker = cloudpickle._get_or_create_tracker_id(cls)
        return _make_enum, (tracker, *_enums.arguments(cls)), state, None, None, _set_state
    made = _extension_classes.reduce_made(cls)
    if made is not None:
        return made
    kind, name, bases, named, tracker, _ = cloudpickle._class_getnewargs(cls)
    # ``NamedTuple`` makes a class with another base from the class statement.
    bases = tuple(tuple if base is typing.NamedTuple else base for base in bases)
    slots = _slots(cls)
    if slots is not None and not _extension_classes.is_struct(cls):
        named["__slots__"] = slots
    named |= {name: vars(cls)[name] for name in _IN_STATEMENT if name in vars(cls)}
    if cls.__qualname__ != name:
        named["__qualname__"] = cls.__qualname__
    members, keywords = _extension_classes.statement(cls)
    return (
        _make_class,
        (kind, name, bases, named | members, tracker, keywords),
        (*_class_state(cls, is_by_name), hints, None),
        None,
        None,
        _set_state,
    )


def _slots(cls: type) -> tuple[str, ...] | None:
    """Returns the names in a class's own slots, however they were declared; ``None`` for a class without slots."""
    if "__slots__" not in cls.__dict__:
        return None
    own = [name for name, member in cls.__dict__.items() if _is_slot_of(cls, member)]
    if "__dict__" in cls.__dict__:
        own.append("__dict__")
    if "__weakref__" in cls.__dict__:
        own.append("__weakref__")
    return tuple(own)


def _is_slot_of(cls: type, member: object) -> bool:
    return type(member) is types.MemberDescriptorType and member.__objclass__ is cls


def _class_state(
    cls: type, is_by_name: Callable[[type], bool]
) -> tuple[dict[str, Any], dict[str, type]]:
    """Returns the attributes of a class, and by name the bases that go by name and have the same object.

    A worker takes the latter from the base. They may be such that they cannot be pickled.
    """
    members: dict[str, Any] = {}
    shared: dict[str, type] = {}
    # In a certain order, so that equal classes have equal pickles.
    for name, value in sorted(vars(cls).items(), key=operator.itemgetter(0)):
        if type(value) is _PausedHook:
            value = value.hook
        if _is_left_out(cls, name, value):
            continue
        # Names in the dict of a class are interned. A pickle would depend on whether another part has the same string.
        copied = name[:1] + name[1:]
        owners = [base for base in cls.__mro__[1:] if vars(base).get(name) is value]
        owner = None if type(value) in _PLAIN else next(filter(is_by_name, owners), None)
        if owner is None:
            members[copied] = value
        else:
            shared[copied] = owner
    slots = members.get("__slots__")
    if slots is not None and type(slots) not in (str, tuple, list, dict):
        members["__slots__"] = _slots(cls)
    if issubclass(type(cls), abc.ABCMeta):
        registered = abc._get_dump(cls)[0]  # type: ignore[attr-defined]
        members["_abc_impl"] = [one for one in (reference() for reference in registered) if one]
    for part in (members, shared):
        _extension_classes.sort_state(cls, part)
    return members, shared


def _is_left_out(cls: type, name: str, value: Any) -> bool:
    if issubclass(cls, enum.Enum) and (name in _OF_ENUM or name in cls.__members__):
        return True
    return name in _OF_PROCESS or name in _IN_STATEMENT or _is_slot_of(cls, value)


def _make_class(
    kind: type[type],
    name: str,
    bases: tuple[Any, ...],
    named: dict[str, Any],
    tracker: str,
    keywords: dict[str, Any],
) -> type:
    """Makes a class without its members, or returns the class that this process already has for the tracker."""
    known: type | None = cloudpickle._DYNAMIC_CLASS_TRACKER_BY_ID.get(tracker)
    if known is not None:
        return known
    namespace = {sys.intern(name): value for name, value in named.items()}
    resolved = types.resolve_bases(bases)
    if resolved is not bases:
        namespace["__orig_bases__"] = bases

    def make(runs_hooks: bool) -> type:
        if runs_hooks and kind not in _received:
            space = {"metaclass": kind, **keywords}
            return types.new_class(name, resolved, space, lambda own: own.update(namespace))
        kinds = (one for one in type.mro(kind) if one not in _received)
        if not runs_hooks:
            kinds = (one for one in kinds if one is abc.ABCMeta or not _is_python(one))
        maker: Any = next(kinds)
        made: type = maker.__new__(kind, name, resolved, dict(namespace), **keywords)
        return made

    return _track(tracker, _with_hooks(resolved, make))


def _with_hooks(bases: tuple[Any, ...], make: Callable[[bool], type]) -> type:
    """Returns what ``make(True)`` makes. If a hook of a class statement fails, returns ``make(False)`` without hooks.

    What the hooks of received classes did has come with their attributes. They do not run.
    """
    hooked = {
        owner
        for base in bases
        for owner in base.__mro__
        if "__init_subclass__" in vars(owner) and _is_python(owner)
    } - {typing.Generic, typing.Protocol}
    try:
        with _without_hooks([owner for owner in hooked if owner in _received]):
            return make(True)
    except Exception:
        with _without_hooks(hooked):
            return make(False)


class _PausedHook(classmethod):  # type: ignore[type-arg]
    """An ``__init_subclass__`` in place of another one, which only the class statements of some threads run."""

    def __init__(self, hook: Any) -> None:
        def run(cls: type, /, *arguments: Any, **named: Any) -> None:
            if self not in _ignored_here():
                hook.__get__(None, cls)(*arguments, **named)

        super().__init__(run)
        self.hook = hook
        #: Class statements that ignore the hook now.
        self.count = 0


_ignored = threading.local()
#: Guards the hooks that are replaced. No other code runs while a thread holds it, except that of destructors.
_hooks_lock = threading.RLock()


def _renew_hooks_lock() -> None:
    """Replaces the lock in a forked process, where the thread that may hold it does not exist."""
    global _hooks_lock
    _hooks_lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_hooks_lock)


def _ignored_here() -> frozenset[_PausedHook]:
    """Returns the hooks that class statements of this thread ignore."""
    ignored: frozenset[_PausedHook] = getattr(_ignored, "hooks", frozenset())
    return ignored


@contextlib.contextmanager
def _without_hooks(owners: Iterable[type]) -> Iterator[None]:
    """Makes class statements of this thread ignore the ``__init_subclass__`` of some classes."""
    paused: list[tuple[type, _PausedHook]] = []
    before = _ignored_here()
    try:
        paused.extend((owner, _pause_hook(owner)) for owner in owners)
        _ignored.hooks = before.union(hook for _, hook in paused)
        yield
    finally:
        _ignored.hooks = before
        for owner, hook in paused:
            _go_on(owner, hook)


def _pause_hook(owner: type) -> _PausedHook:
    with _hooks_lock:
        hook = vars(owner)["__init_subclass__"]
        if not isinstance(hook, _PausedHook):
            hook = _PausedHook(hook)
            type.__setattr__(owner, "__init_subclass__", hook)
        hook.count += 1
        return hook


def _go_on(owner: type, hook: _PausedHook) -> None:
    with _hooks_lock:
        hook.count -= 1
        # The class may have got another hook meanwhile.
        if not hook.count and vars(owner).get("__init_subclass__") is hook:
            type.__setattr__(owner, "__init_subclass__", hook.hook)


def _is_python(cls: type) -> bool:
    """Returns whether the attributes of a class can be set, like those of a class made by a class statement."""
    # The bits are ``Py_TPFLAGS_HEAPTYPE`` and ``Py_TPFLAGS_IMMUTABLETYPE``.
    return bool(cls.__flags__ & (1 << 9)) and not cls.__flags__ & (1 << 8)


def _make_enum(tracker: str, kind: type, bases: tuple[Any, ...], *rest: Any) -> type:
    known: type | None = cloudpickle._DYNAMIC_CLASS_TRACKER_BY_ID.get(tracker)
    if known is not None:
        return known
    return _track(tracker, _with_hooks(bases, lambda _: _enums.make(kind, bases, *rest)))


def _track(tracker: str, made: type) -> type:
    tracked: type = cloudpickle._lookup_class_or_track(tracker, made)
    if tracked is made:
        _received[made] = frozenset()
    return tracked


def _set_state(
    cls: type,
    state: tuple[dict[str, Any], dict[str, type], dict[str, Any], Any],
) -> type:
    before = _received.get(cls)
    if before is None:
        return cls
    own, shared, hints, members = state
    # A base that goes by name may have other attributes here.
    of_bases = {name: vars(base)[name] for name, base in shared.items() if name in vars(base)}
    given = {**own, **of_bases}
    _set_attributes(cls, _extension_classes.without_layout(cls, given))
    now = _received[cls] = frozenset(given)
    for name in before - now:
        # Some attributes cannot be deleted once they are set, such as the documentation text.
        with contextlib.suppress(AttributeError, TypeError):
            _method_in_c(cls, "__delattr__")(cls, name)
    if members is not None:
        _enums.set_state(cls, members)
    _annotations.provide(hints)
    return cls


def _method_in_c(cls: type, name: str) -> Any:
    """Returns a metaclass's method that is in C. One in Python may refuse attributes, and has seen these."""
    methods = (vars(kind).get(name) for kind in type.mro(type(cls)))
    return next(one for one in methods if isinstance(one, types.WrapperDescriptorType))


def _set_attributes(cls: type, attributes: dict[str, Any]) -> None:
    set_attribute = _method_in_c(cls, "__setattr__")
    for name, value in attributes.items():
        if name != "_abc_impl":
            set_attribute(cls, name, value)
    # Setting the module deletes it.
    if "__firstlineno__" in attributes:
        set_attribute(cls, "__firstlineno__", attributes["__firstlineno__"])
    for subclass in attributes.get("_abc_impl", ()):
        abc.ABCMeta.register(cls, subclass)  # type: ignore[arg-type]


def reduce_module(module: types.ModuleType) -> tuple[Any, ...]:
    """Returns the reduction of a module that goes by value: its name and its contents."""
    own = ("__builtins__", "__spec__", "__loader__", "__cached__")
    held = {name: value for name, value in vars(module).items() if name not in own}
    return cloudpickle.dynamic_subimport, (module.__name__, held)


def _reduce_cached_property(value: functools.cached_property[Any]) -> tuple[Any, ...]:
    state = {name: part for name, part in vars(value).items() if name != "lock"}
    return _make_cached_property, (state,)


def _make_cached_property(state: dict[str, Any]) -> functools.cached_property[Any]:
    made: functools.cached_property[Any] = functools.cached_property(state["func"])
    vars(made).update(state)
    return made


def _reduce_variable(variable: contextvars.ContextVar[Any]) -> tuple[Any, ...]:
    key = _names_of_variables.get(variable)
    if key is None:
        key = _names_of_variables[variable] = uuid.uuid4().hex
        _variables[key] = variable
    try:
        default = contextvars.Context().run(variable.get)
    except LookupError:
        return _make_variable, (key, variable.name)
    return _make_variable, (key, variable.name, default)


def _make_variable(key: str, name: str, *default: Any) -> contextvars.ContextVar[Any]:
    variable = _variables.get(key)
    if variable is None:
        named = {"default": default[0]} if default else {}
        variable = _variables[key] = contextvars.ContextVar(name, **named)
        _names_of_variables[variable] = key
    return variable


def _constant_of_dataclasses(name: str) -> Any:
    return lambda _: (getattr, (dataclasses, name))


def _reduce_weak_keys(value: weakref.WeakKeyDictionary[Any, Any]) -> tuple[Any, ...]:
    return weakref.WeakKeyDictionary, (dict(value),)


def _reduce_weak_values(value: weakref.WeakValueDictionary[Any, Any]) -> tuple[Any, ...]:
    return weakref.WeakValueDictionary, (dict(value),)


def _reduce_struct(value: struct.Struct) -> tuple[Any, ...]:
    return struct.Struct, (value.format,)


def _reduce_new_type(value: Any) -> Any:
    if _is_attribute(value):
        return NotImplemented
    return _make_new_type, (
        value.__name__,
        value.__qualname__,
        value.__module__,
        value.__supertype__,
    )


def _make_new_type(name: str, qualified_name: str, module: str, supertype: Any) -> Any:
    make: Any = typing.NewType
    made = make(name, supertype)
    made.__qualname__, made.__module__ = qualified_name, module
    return made


def _is_attribute(value: Any) -> bool:
    """Returns whether any process finds a value under its module and its name."""
    name = getattr(value, "__module__", None)
    found = getattr(sys.modules.get(name or "__main__"), value.__name__, None)
    return found is value and _modules.goes_by_name(name)


#: Options of type variables of all kinds, by the attributes that have them.
_OPTIONS_OF_VARIABLES = {
    "__bound__": "bound",
    "__covariant__": "covariant",
    "__contravariant__": "contravariant",
    "__infer_variance__": "infer_variance",
    "__default__": "default",
}


def _reduce_type_variable(value: Any) -> Any:
    """Reduces a TypeVar, a ParamSpec or a TypeVarTuple. Each is one object in a process."""
    if _is_attribute(value):
        return NotImplemented
    unset = (None, False, getattr(typing, "NoDefault", None))
    options = {}
    for attribute, option in _OPTIONS_OF_VARIABLES.items():
        given = getattr(value, attribute, None)
        if not any(given is one for one in unset):
            options[option] = given
    names = value.__name__, value.__module__
    constraints = getattr(value, "__constraints__", ())
    tracker = cloudpickle._get_or_create_tracker_id(value)
    return _make_type_variable, (type(value), names, constraints, options, tracker)


def _make_type_variable(
    kind: Any, names: tuple[str, str], constraints: tuple[Any, ...], options: Any, tracker: str
) -> Any:
    made = kind(names[0], *constraints, **options)
    with contextlib.suppress(AttributeError):
        made.__module__ = names[1]
    return cloudpickle._lookup_class_or_track(tracker, made)


#: Functions that reduce the instances of a type.
REDUCERS: dict[type, Any] = {
    functools.cached_property: _reduce_cached_property,
    contextvars.ContextVar: _reduce_variable,
    struct.Struct: _reduce_struct,
    threading.local: lambda _: (threading.local, ()),
    weakref.WeakKeyDictionary: _reduce_weak_keys,
    weakref.WeakValueDictionary: _reduce_weak_values,
    typing.NewType: _reduce_new_type,
    typing.TypeVar: _reduce_type_variable,
    typing.ParamSpec: _reduce_type_variable,
    type(dataclasses.MISSING): _constant_of_dataclasses("MISSING"),
    type(dataclasses.KW_ONLY): _constant_of_dataclasses("KW_ONLY"),
    type(dataclasses._HAS_DEFAULT_FACTORY): _constant_of_dataclasses(  # type: ignore[attr-defined]
        "_HAS_DEFAULT_FACTORY"
    ),
}
REDUCERS[typing.TypeVarTuple] = _reduce_type_variable
