"""Definitions that name a function to a worker: by its import path if that leads to the function, otherwise by value.

A definition is one of

* ``N`` and ``(module, qualified name, fingerprint, modules)``, marshalled: importable. The worker imports the function.
  If it finds code that differs from the caller's, it loads the module anew once and then refuses, so an edited module
  is noticed. The sources of the modules that the function names are compared in the same way (``_sources``).
* ``V`` and a pickle of the callable itself: lambdas, closures, functions of ``__main__``, bound methods, partials.
* ``W``, a length, the modules that the callable names, marshalled, and that pickle.

``V`` and ``W`` may follow ``D`` and digests of what the callable shares with others; ``L`` defines that
(``_dependencies``).
"""

from __future__ import annotations

import marshal
import sys
import time

try:
    # Not through hashlib, which loads OpenSSL: 5 ms in each worker.
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

from gristmill import _loading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, ModuleType
    from typing import Any

    from gristmill._dependencies import Dependency
else:
    # As in the module `types`, which a zygote takes longer to load than this one.
    CodeType, ModuleType = type((lambda: None).__code__), type(sys)

_PLAIN = (bool, int, float, complex, str, bytes, type(None))

#: Time at which this module was loaded, which a zygote does before everything else.
LOADED_NS = time.time_ns()

#: Wrapper that this worker's context puts around functions, if any.
wrap: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None


def definition(function: Callable[..., Any], dependencies: list[Dependency] | None = None) -> bytes:
    """Describes a callable to workers. Raises ``UnpicklableError``.

    :param dependencies: gets what the callable shares with others, in the order in which workers load it; without this
        list, the definition holds all of it.
    """
    from gristmill import _sources

    # First, because the check may find modules that must not go by name.
    checks = _sources.checks(function)
    name = importable_name(function)
    if name is None:
        from gristmill import _pickling

        needs: list[Dependency] | None = None if dependencies is None else []
        pickled = _pickling.dump_value(function, is_for_task=True, needs=needs)
        head = b""
        if dependencies is not None and needs:
            from gristmill import _dependencies

            dependencies += _dependencies.ordered(needs)
            head = _dependencies.head(dependencies)
        if not checks:
            return head + b"V" + pickled
        packed = marshal.dumps(checks)
        return head + b"W" + len(packed).to_bytes(4, "little") + packed + pickled
    code = _fingerprint_with_defaults(function)
    is_rewritten = _sources.is_rewritten(sys.modules[name[0]])
    if is_rewritten and any(checked == name[0] for checked, _ in checks):
        # The source is compared instead: a worker compiles other code from it.
        code = None
    return b"N" + marshal.dumps((*map(str, name), code, checks))


def load(data: bytes, is_retry: bool = False) -> Any:
    """Makes a callable, or what callables share, from its definition.

    Raises the exceptions of its import or its unpickling.
    """
    if is_retry:
        _forget_listings()  # a module that was missing may exist now
    if data[:1] == b"L":
        from gristmill import _dependencies

        return _dependencies.load(data)
    function = _load(data)
    return function if wrap is None else wrap(function)


def _load(data: bytes) -> Callable[..., Any]:
    if data[:1] == b"N":
        return _load_by_name(*marshal.loads(data[1:]))
    if data[:1] == b"D":
        from gristmill import _dependencies

        data = _dependencies.without_head(data)
    with _loading.Load("loading a function sent by value", "to load a function sent by value"):
        return _load_by_value(data)


def _load_by_value(data: bytes) -> Callable[..., Any]:
    from gristmill import _unpickling

    if data[:1] == b"W":
        start = 5 + int.from_bytes(data[1:5], "little")
        checks = marshal.loads(data[5:start])
        from gristmill import _sources

        _sources.require(checks)
        function: Callable[..., Any] = _unpickling.load(data[start:], {})
        _sources.note(checks)
    else:
        function = _unpickling.load(data[1:], {})
    # Exceptions of classes by value need it, even when nothing can be loaded any more.
    from gristmill import _pickling  # noqa: F401

    return function


def _load_by_name(
    module_name: str, qualified_name: str, expected: bytes | None, checks: list[tuple[str, bytes]]
) -> Callable[..., Any]:
    purpose = f"to load {module_name}.{qualified_name}"
    with _loading.Load(f"loading {module_name}.{qualified_name}", purpose):
        __import__(module_name)
        module = sys.modules[module_name]
        if checks:
            from gristmill import _sources

            _sources.require(checks)
        function: Callable[..., Any] = _walk(module, qualified_name)
    if expected is not None and _fingerprint_with_defaults(function) != expected:
        with _loading.Load(f"importing module {module_name} again {purpose}", purpose):
            reload(module)
            function = _walk(module, qualified_name)
        if _fingerprint_with_defaults(function) != expected:
            from gristmill import _stale

            what, file = f"{module_name}.{qualified_name}", getattr(module, "__file__", module_name)
            raise _stale.error_in_worker(what, module_name, str(file))
    return function


def reload(module: ModuleType) -> None:
    """Loads a module anew from its file."""
    import importlib

    importlib.invalidate_caches()
    importlib.reload(module)


def _forget_listings() -> None:
    """Makes all finders read their folders again, as ``importlib.invalidate_caches`` does, without its slow import."""
    for finder in sys.meta_path:
        if hasattr(finder, "invalidate_caches"):
            finder.invalidate_caches()


def importable_name(function: Any) -> tuple[str, str] | None:
    """Returns the module and qualified name under which any process finds this very object, or ``None``."""
    from types import MethodType

    module_name = getattr(function, "__module__", None)
    qualified_name = getattr(function, "__qualname__", None)
    if not isinstance(module_name, str) or not isinstance(qualified_name, str):
        return None
    if isinstance(function, MethodType) or module_name == "__main__":
        return None
    if not is_found(function, module_name):
        return None
    # Imported here because workers do not need it: definitions tell them which functions go by name.
    from gristmill._modules import goes_by_name

    return (module_name, qualified_name) if goes_by_name(module_name) else None


def is_found(value: Any, module_name: str) -> bool:
    """Returns whether a module leads to a value by its qualified name."""
    module = sys.modules.get(module_name)
    if module is None:
        return False
    try:
        return _walk(module, value.__qualname__) is value
    except AttributeError:
        return False


def fingerprint(function: Any) -> bytes | None:
    """Returns a hash of a function's code without line numbers and paths; ``None`` for an object without code."""
    code = getattr(function, "__code__", None)
    return fingerprint_of(code) if isinstance(code, CodeType) else None


def _fingerprint_with_defaults(function: Any) -> bytes | None:
    """Returns a hash of a function's code and of its plain defaults; ``None`` for an object without code."""
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        return None
    defaults = getattr(function, "__defaults__", None) or ()
    named = getattr(function, "__kwdefaults__", None) or {}
    return fingerprint_of(code, *map(_plain, defaults), *map(_plain, named.values()))


def fingerprint_of(code: CodeType, *others: str) -> bytes:
    """Returns a hash of code and of further texts."""
    digest = blake2b(digest_size=16)
    _feed(digest, code)
    for other in others:
        digest.update(other.encode(errors="surrogatepass") + b"\0")
    return digest.digest()


def digest_of(source: bytes) -> bytes:
    """Returns a hash of a source."""
    return blake2b(source, digest_size=16).digest()


def _plain(value: object) -> str:
    """Returns a text that identifies a default if it is the same in all processes; otherwise ``?``."""
    return repr(value) if type(value) in _PLAIN else "?"


def _feed(digest: Any, code: CodeType) -> None:
    digest.update(code.co_code)
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    digest.update(repr(counts).encode())
    for names in (code.co_names, code.co_varnames, code.co_freevars):
        digest.update(repr(names).encode())
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _feed(digest, constant)
        elif isinstance(constant, frozenset):
            digest.update(repr(sorted(map(repr, constant))).encode())
        else:
            digest.update(repr(constant).encode())


def _walk(module: ModuleType, qualified_name: str) -> Any:
    found: Any = module
    for part in qualified_name.split("."):
        found = getattr(found, part)
    return found
