"""How a function is named to a worker: by its import path where that leads to it, by value where not.

A definition is one of

* ``N`` and a pickle of ``(module, qualified name, fingerprint)``: importable. The worker imports it, and if the code it
  finds there is not the code the caller has, reloads the module once and then refuses: an edited module is noticed.
* ``V`` and a pickle of the callable itself: lambdas, closures, functions of ``__main__``, bound methods, partials.
"""

from __future__ import annotations

import hashlib
import importlib
import pickle
import sys
import types
from collections.abc import Callable
from typing import Any

from gristmill import _pickling
from gristmill._errors import GristmillError


class StaleModule(GristmillError):
    """A module was edited after the caller imported it, and the worker sees another version of the function."""


def definition(function: Callable[..., Any]) -> bytes:
    """Describes a callable to workers. Raises ``UnpicklableError``."""
    name = importable_name(function)
    if name is None:
        return b"V" + _pickling.dump_value(function, is_for_task=True)
    return b"N" + pickle.dumps((*name, fingerprint(function)))


def load(data: bytes) -> Callable[..., Any]:
    """Makes a callable from its definition. Raises whatever its import or its unpickling raises."""
    if data[:1] == b"V":
        function: Callable[..., Any] = _pickling.load(data[1:], {})
        return function
    module_name, qualified_name, expected = pickle.loads(data[1:])
    module = importlib.import_module(module_name)
    function = _walk(module, qualified_name)
    if expected is not None and fingerprint(function) != expected:
        function = _walk(importlib.reload(module), qualified_name)
        if fingerprint(function) != expected:
            raise StaleModule(
                f"{module_name}.{qualified_name} was edited after the caller imported it: the worker finds other code "
                f"in {getattr(module, '__file__', module_name)}; reload the module in the caller, or start it anew"
            )
    return function


def importable_name(function: Any) -> tuple[str, str] | None:
    """The module and the qualified name under which any process finds this very object, or ``None``."""
    module_name = getattr(function, "__module__", None)
    qualified_name = getattr(function, "__qualname__", None)
    if not isinstance(module_name, str) or not isinstance(qualified_name, str):
        return None
    if isinstance(function, types.MethodType) or module_name == "__main__":
        return None
    module = sys.modules.get(module_name)
    if module is None or getattr(module, "__spec__", None) is None:
        return None
    try:
        found = _walk(module, qualified_name)
    except AttributeError:
        return None
    return (module_name, qualified_name) if found is function else None


def fingerprint(function: Any) -> bytes | None:
    """A hash of a function's code without line numbers and paths, or ``None`` for what has no code."""
    code = getattr(function, "__code__", None)
    if not isinstance(code, types.CodeType):
        return None
    digest = hashlib.blake2b(digest_size=16)
    _feed(digest, code)
    return digest.digest()


def _feed(digest: Any, code: types.CodeType) -> None:
    digest.update(code.co_code)
    for names in (code.co_names, code.co_varnames, code.co_freevars):
        digest.update(repr(names).encode())
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            _feed(digest, constant)
        elif isinstance(constant, frozenset):
            digest.update(repr(sorted(map(repr, constant))).encode())
        else:
            digest.update(repr(constant).encode())


def _walk(module: types.ModuleType, qualified_name: str) -> Any:
    found: Any = module
    for part in qualified_name.split("."):
        found = getattr(found, part)
    return found


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


def captures(function: Any) -> tuple[list[tuple[Any, tuple[str, ...]]], bool]:
    """What a callable takes from around it, for the identity cache.

    Gives every function by value that it reaches, itself included, each with the names of the globals it reads; and
    whether all else that they capture is constant, so that the same identities mean the same behaviour.
    """
    if importable_name(function) is not None:
        return [], True
    found: list[tuple[Any, tuple[str, ...]]] = []
    seen: set[int] = set()
    waiting = [function]
    is_settled = True
    while waiting:
        value = waiting.pop()
        if (
            id(value) in seen
            or isinstance(value, _CONSTANT)
            or _pickling._handle(value) is not None
        ):
            continue
        seen.add(id(value))
        if isinstance(value, (tuple, frozenset)):
            waiting.extend(value)
        elif isinstance(value, types.ModuleType) or importable_name(value) is not None:
            continue
        elif type(value) is types.FunctionType and not value.__dict__:
            names = _global_names(value.__code__)
            found.append((value, names))
            waiting.extend(_captured_values(value, names))
        else:
            is_settled = False
    return found, is_settled


def _captured_values(function: types.FunctionType, names: tuple[str, ...]) -> list[Any]:
    values = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    for cell in function.__closure__ or ():
        try:
            values.append(cell.cell_contents)
        except ValueError:  # not filled yet: a function that names itself while it is made
            values.append(None)
    values += [function.__globals__[name] for name in names if name in function.__globals__]
    return values


def _global_names(code: types.CodeType) -> tuple[str, ...]:
    """Names that the code, or code nested in it, may look up as globals."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names.update(_global_names(constant))
    return tuple(sorted(names))
