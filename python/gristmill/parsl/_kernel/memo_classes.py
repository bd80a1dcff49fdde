"""Bytes that identify classes, modules and other objects that a pickle names.

A name is stable, and identifies its object, if this process finds the object under it, in the main program or in a
module that another process can import, and no other object had the name when an earlier key was made. Classes that
functions, ``make_dataclass``, ``namedtuple`` or ``type`` make often share one name or have one that leads nowhere.

Such a class counts by its content: name, metaclass, bases, slots and attributes, with the code of its methods, as they
are at each call. Its documentation text and annotations count, its position in a file does not. A module of this kind
counts by its contents, a type variable by its parts. Everything else without a stable name is refused.
"""

from __future__ import annotations

import abc
import builtins
import operator
import sys
import weakref
from types import GetSetDescriptorType, MemberDescriptorType, ModuleType
from typing import TYPE_CHECKING, Any

from gristmill import _modules
from gristmill.parsl._kernel.memo_bytes import UnkeyableValue, framed, named

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gristmill.parsl._kernel.memo_values import Encoder

#: The first object that was found under each module and name.
_owners: dict[tuple[str, str], weakref.ref[Any]] = {}

#: Attributes of classes that other attributes determine, that Python adds while it uses a class, and positions.
_DERIVED = frozenset({
    "__annotate__",
    "__annotate_func__",
    "__annotations__",
    "__annotations_cache__",
    "__firstlineno__",
    "__module__",
    "__slotnames__",
    "__static_attributes__",
    "_abc_impl",
})  # fmt: skip
#: Attributes of an enum class that its members determine.
_OF_ENUMS = frozenset({
    "_hashable_values_",
    "_member_map_",
    "_member_names_",
    "_unhashable_values_",
    "_unhashable_values_map_",
    "_value2member_map_",
})  # fmt: skip
#: Attributes of an enum's member that are not its own.
_OF_MEMBERS = frozenset({"__objclass__", "_name_", "_sort_order_", "_value_"})
#: Attributes of modules that say where they are from.
_OF_MODULES = frozenset({"__builtins__", "__cached__", "__loader__", "__spec__"})
#: The parts of objects of ``typing`` whose pickle is a name.
_TYPING_PARTS = {
    "NewType": ("__qualname__", "__supertype__"),
    "ParamSpec": ("__name__", "__bound__", "__covariant__", "__contravariant__", "__default__"),
    "TypeAliasType": ("__name__", "__type_params__", "__value__"),
    "TypeVar": (
        "__name__",
        "__bound__",
        "__constraints__",
        "__covariant__",
        "__contravariant__",
        "__infer_variance__",
        "__default__",
    ),
    "TypeVarTuple": ("__name__", "__default__"),
}


def has_stable_name(value: Any) -> bool:
    """Returns whether the module and the qualified name of a class or a function identify it."""
    if isinstance(value, type) and not _is_of_python(value):
        # Compiled into the interpreter or into an extension module, which may give it a name that leads nowhere.
        return True
    return _is_owner(value, value.__module__, value.__qualname__)


def class_part(encoder: Encoder, cls: type) -> bytes:
    """Encodes a class by its name if that is stable, otherwise by its content. Raises ``UnkeyableValue``."""
    if has_stable_name(cls):
        return named(b"C", cls)
    return encoder.class_content(cls, lambda: framed(b"K", _content(encoder, cls)))


def module_part(encoder: Encoder, module: ModuleType) -> bytes:
    """Encodes a module by its name if that is stable, otherwise by its contents."""
    name = str(vars(module).get("__name__"))
    if _is_owner(module, name, ""):
        return framed(b"M", name.encode())
    held = {key: value for key, value in vars(module).items() if key not in _OF_MODULES}
    return framed(b"K", b"M" + encoder.encode(held))


def global_part(encoder: Encoder, value: Any, name: str) -> bytes:
    """Encodes an object whose pickle is only a name. Raises ``UnkeyableValue`` if that does not identify it."""
    module = getattr(value, "__module__", None)
    home = module if isinstance(module, str) else _home(value, name)
    if _is_owner(value, home, name):
        return framed(b"g", f"{module}:{name}".encode())
    kind = type(value)
    parts = _TYPING_PARTS.get(kind.__name__) if kind.__module__ == "typing" else None
    if parts is not None:
        own = tuple((part, getattr(value, part, None)) for part in parts)
        return encoder.in_order(b"w", (kind, module, own))
    raise UnkeyableValue(
        f"a {kind.__qualname__} is known only by its name, {name}, which is not its alone"
    )


def _home(value: Any, name: str) -> str | None:
    """Returns the module that leads to an object which does not name one."""
    if getattr(builtins, name, None) is value:
        return "builtins"
    modules = list(sys.modules.items())
    return next((key for key, module in modules if _held(module, name) is value), None)


def _held(module: Any, name: str) -> Any:
    # Other ways to read the attribute would load a lazy module.
    return vars(module).get(name) if type(module) is ModuleType else None


def _is_of_python(cls: type) -> bool:
    # The bits are ``Py_TPFLAGS_HEAPTYPE`` and ``Py_TPFLAGS_IMMUTABLETYPE``.
    return bool(cls.__flags__ & (1 << 9)) and not cls.__flags__ & (1 << 8)


def _is_owner(value: Any, module: Any, name: Any) -> bool:
    """Returns whether an object is the first with its name that was found under it. It remains so after its removal."""
    if type(module) is not str or type(name) is not str:
        return False
    owner = _owners.get((module, name))
    if owner is not None:
        return owner() is value
    if not _is_lasting(module) or not _is_found(value, module, name):
        return False
    try:
        return _owners.setdefault((module, name), weakref.ref(value))() is value
    except TypeError:  # an object of an extension module
        return True


def _is_found(value: Any, module: str, name: str) -> bool:
    found: Any = sys.modules[module]
    try:
        for part in filter(None, name.split(".")):
            found = getattr(found, part)
    except Exception:
        return False
    return found is value


def _is_lasting(name: str) -> bool:
    """Returns whether a module is the main program or one that another process can import."""
    module = sys.modules.get(name)
    if name == "__main__" or getattr(module, "__spec__", None) is not None:
        return module is not None
    # Extension modules create modules inside themselves.
    return module is not None and _modules.is_of_installed_package(name)


def _content(encoder: Encoder, cls: type) -> bytes:
    # It takes long to load.
    from gristmill import _extension_classes

    kind = type(cls)
    if kind.__basicsize__ != type.__basicsize__ and not _extension_classes.is_known(cls):
        raise UnkeyableValue(
            f"the class {cls.__qualname__} is not found under its name, and its metaclass {kind.__qualname__} "
            "keeps a part of it that Python cannot read"
        )
    parts = [named(b"C", cls), encoder.encode(kind), encoder.in_order(b"t", cls.__bases__)]
    hidden = _extension_classes.statement(cls)
    if any(hidden):
        parts.append(encoder.encode(hidden))
    parts.append(encoder.in_order(b"t", _annotations(cls).items()))
    parts.append(encoder.in_no_order(b"Z", _registered(cls)))
    omitted = set(_DERIVED)
    if issubclass(cls, _enum_class()):
        members = getattr(cls, "__members__", {})
        omitted |= _OF_ENUMS | members.keys()
        parts.append(encoder.in_order(b"t", _members(members)))
    for name, value in sorted(vars(cls).items(), key=operator.itemgetter(0)):
        if name not in omitted:
            parts.append(framed(b"s", name.encode("utf-8", "surrogatepass")))
            parts.append(b"/" if _is_of_layout(cls, value) else _attribute(encoder, name, value))
    return b"".join(parts)


def _attribute(encoder: Encoder, name: str, value: Any) -> bytes:
    if name == "__dataclass_fields__" and type(value) is dict:
        # Their order is that of the arguments.
        return encoder.in_order(b"D", value.items())
    return encoder.encode(value)


def _is_of_layout(cls: type, value: Any) -> bool:
    """Returns whether an attribute describes a slot, or a field of ``ctypes``: its name says all of it."""
    kind = type(value)
    if kind in (MemberDescriptorType, GetSetDescriptorType):
        return bool(value.__objclass__ is cls)
    return (kind.__module__, kind.__name__) == ("_ctypes", "CField")


def _annotations(cls: type) -> Mapping[str, Any]:
    """Returns the annotations of a class, in their order. Names that have no value yet are strings or stand-ins."""
    if sys.version_info >= (3, 14):
        import annotationlib

        return annotationlib.get_annotations(cls, format=annotationlib.Format.FORWARDREF)
    found = vars(cls).get("__annotations__")
    return found if isinstance(found, dict) else {}


def _registered(cls: type) -> list[Any]:
    """Returns the classes that were registered with an abstract base class."""
    if not issubclass(type(cls), abc.ABCMeta):
        return []
    found = (reference() for reference in abc._get_dump(cls)[0])  # type: ignore[attr-defined]
    return [one for one in found if one is not None]


def _enum_class() -> Any:
    return getattr(sys.modules.get("enum"), "Enum", ())


def _members(members: Mapping[str, Any]) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Yields the name, the value and the other attributes of each member of an enum, in their order."""
    for name, member in members.items():
        own = {key: value for key, value in vars(member).items() if key not in _OF_MEMBERS}
        yield name, member._value_, own
