"""What a callable takes from around it, for the identity cache in front of the function table."""

from __future__ import annotations

import sys
import types
import weakref

from gristmill._functions import importable_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Values of these types never change, so their identity is enough.
_CONSTANT = (
    type(None),
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    range,
    type(...),
    type(NotImplemented),
)

#: The method of a class whose instances never change that gives what one is made of. That is looked at in the place of
#: the instance, which is then not pickled anew for each call.
_PARTS = "_unchanging_parts"

#: Functions of which only the identities of what they capture are compared.
_by_identity: weakref.WeakSet[types.FunctionType] = weakref.WeakSet()


def trust_contents(function: Any) -> None:
    """Takes what a function captures for unchanged while each is the same object, also lists, dicts and instances.

    Else a function that captures one of those, if only as a default, is pickled anew for each call. Holds for every
    executor that is given the function for the first time from now on.
    """
    if type(function) is types.FunctionType:
        _by_identity.add(function)


def captures(
    function: Any,
) -> tuple[list[tuple[Any, tuple[str, ...], tuple[str, ...]]], list[Any], bool]:
    """What a callable takes from around it, for the identity cache.

    Gives every function by value that it reaches, itself included, each with the names of the globals that it reads,
    those of contexts apart; the contexts that it reaches otherwise; and whether all else that they capture is constant,
    so that the same identities mean the same behaviour. Contexts do until they are released.
    """
    if importable_name(function) is not None:
        return [], [], True
    # It goes by value, which is pickled.
    from gristmill._pickling import handle_of

    found: list[tuple[Any, tuple[str, ...], tuple[str, ...]]] = []
    contexts: list[Any] = []
    seen: set[int] = set()
    waiting = [function]
    is_settled = True
    is_trusted = type(function) is types.FunctionType and function in _by_identity
    while waiting:
        value = waiting.pop()
        if id(value) in seen or isinstance(value, _CONSTANT):
            continue
        seen.add(id(value))
        handle = handle_of(value)
        if handle is not None:
            # An executor, or one with options, which may name a context.
            waiting.extend(handle[1])
        elif isinstance(value, (tuple, frozenset)):
            waiting.extend(value)
        elif isinstance(value, types.ModuleType) or importable_name(value) is not None:
            continue
        elif type(value) is types.FunctionType and (is_trusted or not value.__dict__):
            names, stamped = _global_names(value)
            found.append((value, names, stamped))
            waiting.extend(_captured_values(value, names))
            waiting.extend(value.__dict__.values())
        elif _is_context(value):
            contexts.append(value)
        elif (parts := getattr(type(value), _PARTS, None)) is not None:
            waiting.extend(parts(value))
        else:
            is_settled = is_trusted
    return found, contexts, is_settled


def _is_context(value: Any) -> bool:
    declare = sys.modules.get("gristmill._context.declare")
    return declare is not None and type(value) is declare.Context


def _captured_values(function: types.FunctionType, names: tuple[str, ...]) -> list[Any]:
    values = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    for cell in function.__closure__ or ():
        try:
            values.append(cell.cell_contents)
        except ValueError:  # not filled yet: a function that names itself while it is made
            values.append(None)
    values += [function.__globals__[name] for name in names if name in function.__globals__]
    return values


def _global_names(function: types.FunctionType) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The globals that a function may look up: names of those that are no contexts, and of those that are."""
    names = sorted(_names_in(function.__code__))
    stamped = tuple(name for name in names if _is_context(function.__globals__.get(name)))
    return tuple(name for name in names if name not in stamped), stamped


def _names_in(code: types.CodeType) -> set[str]:
    """Names that the code, or code nested in it, may look up as globals."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names_in(constant)
    return names
