"""How a function is named to a worker: by its import path where that leads to it, by value where not.

A definition is one of

* ``N`` and ``(module, qualified name, fingerprint)``, marshalled: importable. The worker imports it, and if the code it
  finds there is not the code the caller has, reloads the module once and then refuses: an edited module is noticed.
* ``V`` and a pickle of the callable itself: lambdas, closures, functions of ``__main__``, bound methods, partials.
"""

from __future__ import annotations

import importlib
import marshal
import sys
import types

try:
    # Not through hashlib, which loads OpenSSL: 5 ms in each worker.
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: What this worker's context has calls go through, if anything.
wrap: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None


def definition(function: Callable[..., Any]) -> bytes:
    """Describes a callable to workers. Raises ``UnpicklableError``."""
    name = importable_name(function)
    if name is None:
        from gristmill import _pickling

        return b"V" + _pickling.dump_value(function, is_for_task=True)
    return b"N" + marshal.dumps((*map(str, name), fingerprint(function)))


def load(data: bytes) -> Callable[..., Any]:
    """Makes a callable from its definition. Raises whatever its import or its unpickling raises."""
    function = _load(data)
    return function if wrap is None else wrap(function)


def _load(data: bytes) -> Callable[..., Any]:
    if data[:1] == b"V":
        from gristmill import _unpickling

        function: Callable[..., Any] = _unpickling.load(data[1:], {})
        return function
    module_name, qualified_name, expected = marshal.loads(data[1:])
    module = importlib.import_module(module_name)
    function = _walk(module, qualified_name)
    if expected is not None and fingerprint(function) != expected:
        function = _walk(importlib.reload(module), qualified_name)
        if fingerprint(function) != expected:
            from gristmill._errors import StaleModule

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
    digest = blake2b(digest_size=16)
    _feed(digest, code)
    return digest.digest()


def _feed(digest: Any, code: types.CodeType) -> None:
    digest.update(code.co_code)
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    digest.update(repr(counts).encode())
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
