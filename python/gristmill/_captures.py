"""Values that a callable captures, for the identity cache in front of the function table."""

from __future__ import annotations

import sys
import types
import weakref

from gristmill._functions import importable_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Types whose values never change: their identity is enough.
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

#: The method by which a class whose instances never change returns the parts of an instance. The cache compares the
#: parts instead of the instance, which is then not pickled anew for each call.
_PARTS = "_unchanging_parts"

#: Functions whose defaults are compared by identity only.
_by_identity: weakref.WeakSet[types.FunctionType] = weakref.WeakSet()


def trust_defaults(function: Any) -> None:
    """Treats a default of a function, or of one that it captures, as unchanged while it is the same object.

    Without this, a function with a default such as ``inputs=[]`` is pickled anew for each call. This applies to every
    executor that receives the function for the first time after this call. What globals and variables of outer
    functions hold is compared all the same.
    """
    if type(function) is types.FunctionType:
        _by_identity.add(function)


def captures(
    function: Any,
) -> tuple[list[tuple[Any, tuple[str, ...], tuple[str, ...]]], list[Any], bool]:
    """Returns the values that a callable captures, for the identity cache.

    The first item lists every function by value that the callable reaches, itself included. Each comes with the names
    of the globals that it reads: those that are no contexts, then those that are. The second item lists the contexts
    that it reaches in other ways. The third item says whether everything else is constant, so that the same identities
    mean the same behaviour. A context counts as constant until it is released.
    """
    if importable_name(function) is not None:
        return [], [], True
    # The callable goes by value: it is pickled.
    from gristmill._pickling import handle_of, is_imported

    found: list[tuple[Any, tuple[str, ...], tuple[str, ...]]] = []
    contexts: list[Any] = []
    seen: set[tuple[int, bool]] = set()
    # Each with whether it is unchanged while it is the same object.
    waiting = [(function, False)]
    is_settled = True
    trusts = type(function) is types.FunctionType and function in _by_identity
    while waiting:
        value, is_trusted = waiting.pop()
        if (id(value), is_trusted) in seen or isinstance(value, _CONSTANT):
            continue
        seen.add((id(value), is_trusted))
        handle = handle_of(value)
        if handle is not None:
            # An executor, or an executor with options. The options may name a context.
            waiting += [(part, is_trusted) for part in handle[1]]
        elif isinstance(value, (tuple, frozenset)):
            waiting += [(part, is_trusted) for part in value]
        elif isinstance(value, types.ModuleType):
            # A module that workers do not import is sent with its current contents.
            is_settled = is_settled and (is_trusted or is_imported(value))
        elif importable_name(value) is not None:
            continue
        elif type(value) is types.FunctionType:
            names, stamped = _global_names(value)
            found.append((value, names, stamped))
            waiting += [(one, trusts) for one in _defaults(value)]
            waiting += [(one, False) for one in _captured_values(value, names)]
            waiting += [(one, False) for one in value.__dict__.values()]
        elif _is_context(value):
            contexts.append(value)
        elif (parts := getattr(type(value), _PARTS, None)) is not None:
            waiting += [(part, is_trusted) for part in parts(value)]
        else:
            is_settled = is_settled and is_trusted
    return found, contexts, is_settled


def _is_context(value: Any) -> bool:
    # While another thread loads the module, neither the class nor any context exists.
    return type(value) is getattr(sys.modules.get("gristmill._context.declare"), "Context", None)


def _defaults(function: types.FunctionType) -> list[Any]:
    return [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]


def _captured_values(function: types.FunctionType, names: tuple[str, ...]) -> list[Any]:
    values = []
    for cell in function.__closure__ or ():
        try:
            values.append(cell.cell_contents)
        except ValueError:  # not filled yet: a function that names itself while it is made
            values.append(None)
    values += [function.__globals__[name] for name in names if name in function.__globals__]
    return values


def _global_names(function: types.FunctionType) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the globals that a function may look up: first the names that are no contexts, then those that are."""
    names = sorted(_names_in(function.__code__))
    stamped = tuple(name for name in names if _is_context(function.__globals__.get(name)))
    return tuple(name for name in names if name not in stamped), stamped


def _names_in(code: types.CodeType) -> set[str]:
    """Returns the names that the code, or code nested in it, may look up as globals."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names_in(constant)
    return names
