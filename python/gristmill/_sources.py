"""Comparison of the modules that a function names, in the program and in a worker, by the hash of their source.

The compared modules are those that a function names (``_origins``) and all that they lead to (``_module_graph``). The
hash is that of the source which a module was loaded from. If the file has not changed since the module was imported
(``_watch`` has the time), this is the hash of the file. Otherwise the file is compiled, and its code is compared with
the functions of the loaded module.
"""

from __future__ import annotations

import os
import sys
import time

from gristmill import _functions, _watch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, ModuleType
    from typing import Any

    from gristmill._module_graph import Closure

    _Stamp = tuple[int, int, int]

#: Known modules: the import spec (``__spec__``) and the hash of the source, or ``None`` if the file had changed before
#: it was first read here.
_loaded: dict[str, tuple[Any, bytes | None]] = {}
#: Known files of modules that were not loaded when they were looked for: the path, the times of change, and the hash of
#: the source.
_later: dict[str, tuple[Any, _Stamp | None, bytes]] = {}
#: Nanoseconds by which the clock of files may lag behind.
_COARSE_NS = 20_000_000


def checks(function: Any) -> list[tuple[str, bytes]]:
    """Returns the modules that a function leads to, each after the modules that it needs when it is loaded.

    Each has the hash of its source, which is empty if the module is not loaded here.
    """
    # Imported here because most workers need neither.
    from gristmill import _module_graph, _origins

    roots, missing = _origins.roots(function)
    absent = [name for name in sorted(missing) if _module_graph.is_absent(name)]
    if not roots and not absent:
        return []
    _watch.begin()
    if len(roots) == 1 and not absent:
        return _checks_of(_module_graph.closure_of(roots[0]))
    found: dict[tuple[str, bytes], None] = {}
    for root in roots:
        found.update(dict.fromkeys(_checks_of(_module_graph.closure_of(root))))
    _watch.awaited.update(absent)
    found.update(((name, b""), None) for name in absent)
    return list(found)


def _checks_of(closure: Closure) -> list[tuple[str, bytes]]:
    if closure.checks is None:
        hashed = ((one, source_hash(one)) for one in closure.names)
        closure.checks = [(one, digest) for one, digest in hashed if digest is not None]
        closure.checks += [(one, b"") for one in closure.absent]
        _watch.awaited.update(closure.absent)
    return closure.checks


def require(checks: list[tuple[str, bytes]]) -> None:
    """Ensures that the modules here equal the caller's.

    Reloads a module whose file has the right source, and all loaded modules after it, which may hold objects of the old
    version. Raises ``StaleModuleError`` if a file has another source.
    """
    is_late = False
    for name, expected in checks:
        module = sys.modules.get(name)
        if module is None:
            _require_file(name, expected)
            continue
        if not expected:
            continue
        is_right = source_hash(name) == expected
        if is_right and not is_late:
            continue
        if not is_right and hash_of_file(getattr(module, "__spec__", None)) != expected:
            raise _error(name, module)
        # The modules that follow may hold objects of the old version.
        is_late = True
        # Recorded here in case another finder comes before that of ``_watch``.
        _watch.sought_ns[name] = time.time_ns()
        _functions.reload(module)
        if source_hash(name) != expected:
            raise _error(name, module)


def note(checks: list[tuple[str, bytes]]) -> None:
    """Records the sources of modules that were loaded since they were required."""
    for name, _ in checks:
        source_hash(name)


def _require_file(name: str, expected: bytes) -> None:
    """Checks a module that will be loaded when it is needed. Remembers until then what its file holds."""
    where, stamp, digest = _later.get(name, (None, None, None))
    if digest is None or (expected and _stamp(where) != stamp):
        from gristmill import _modules

        spec = _modules.find(name)
        where = getattr(spec, "origin", None)
        stamp = _stamp(where)
        digest = hash_of_file(spec)
        if digest is None:
            return
        _later[name] = (where, stamp, digest)
    if expected and digest != expected:
        raise _error(name, where)


def _error(name: str, where: Any) -> Exception:
    from gristmill import _stale

    file = where if isinstance(where, str) else getattr(where, "__file__", name)
    return _stale.error_in_worker(f"module {name}", name, file)


def source_hash(name: str) -> bytes | None:
    """Returns the hash of the source that a module was loaded from, if it is known."""
    module = sys.modules.get(name)
    spec = getattr(module, "__spec__", None)
    if module is None or spec is None:
        return None
    known = _loaded.get(name)
    if known is not None and known[0] is spec:
        return known[1]
    stamp = _stamp(spec.origin)
    digest = hash_of_file(spec)
    later = _later.pop(name, None)
    if digest is not None:
        is_known = later[2] == digest if later else _was_loaded_from(module, spec, stamp)
        if not is_known:
            digest = None
            if is_rewritten(module):
                from gristmill import _modules

                _modules.unverified.add(name)
    _loaded[name] = (spec, digest)
    return digest


def _was_loaded_from(module: ModuleType, spec: Any, stamp: _Stamp | None) -> bool:
    """Returns whether a module has the code that its file holds now."""
    if stamp is None:
        return True
    modified_ns, changed_ns, _ = stamp
    sought_ns = _watch.sought_ns.get(spec.name)
    if sought_ns is None:
        if modified_ns < _started_ns():
            return True
    elif max(modified_ns, changed_ns) < sought_ns - _COARSE_NS:
        return True
    elif sought_ns + _COARSE_NS < modified_ns < time.time_ns():
        return False
    if is_rewritten(module):
        return False
    from gristmill import _imports

    try:
        source = read(spec)
        code = compile(source or b"", spec.origin, "exec", dont_inherit=True)
    except Exception:
        return False
    # Of several functions of one name the module has the last one, or a decorator's replacement of it.
    compiled: dict[str, list[bytes]] = {}
    for one in _imports.codes(code):
        compiled.setdefault(one.co_qualname, []).append(_functions.fingerprint_of(one))
    for one in _live_codes(module, spec.origin):
        if _functions.fingerprint_of(one) not in compiled.get(one.co_qualname, ()):
            return False
    return True


def _live_codes(module: ModuleType, file: str) -> Iterator[CodeType]:
    from types import CodeType

    for value in list(vars(module).values()):
        members = list(vars(value).values()) if isinstance(value, type) else [value]
        for member in members:
            code = getattr(member, "__code__", None)
            if isinstance(code, CodeType) and code.co_filename == file:
                yield code


def hash_of_file(spec: Any) -> bytes | None:
    """Returns the hash of the source that the file of a module holds now, if it can be read."""
    try:
        source = read(spec)
    except Exception:
        return None
    return None if source is None else _functions.digest_of(source)


def is_rewritten(module: ModuleType) -> bool:
    """Returns whether a module's loader may compile other code from its source than Python does.

    The loader of pytest does so: it rewrites assertions.
    """
    loader = getattr(module, "__loader__", None)
    kind = loader if isinstance(loader, type) else type(loader)
    return kind.__module__ not in (
        "_frozen_importlib_external",
        "_frozen_importlib",
        "zipimport",
        "importlib._bootstrap_external",
    )


def read(spec: Any) -> bytes | None:
    """Reads the source of a module, if it has one."""
    origin = getattr(spec, "origin", None)
    if not isinstance(origin, str) or not origin.endswith((".py", ".pyc")):
        return None
    if not os.path.isfile(origin):
        data: bytes = spec.loader.get_data(origin)
        return data
    with open(origin, "rb") as file:
        return file.read()


def _stamp(path: Any) -> _Stamp | None:
    """Returns the times when a file was modified and changed, in nanoseconds, and its size."""
    try:
        found = os.stat(path)
    except (OSError, TypeError):
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size


def _started_ns() -> int:
    """Returns a time shortly before the start of the interpreter that this process is, or was forked from."""
    global _started
    if _started is None:
        try:
            with open("/proc/self/stat", "rb") as file:
                ticks = int(file.read().rpartition(b")")[2].split()[19])
            age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
            _started = time.time_ns() - int((age + 0.05) * 1e9)
        except (OSError, ValueError, IndexError):
            _started = 0
        # A worker is a fork of the interpreter that has loaded ``_functions``.
        _started = min(_started, _functions.LOADED_NS)
    return _started


_started: int | None = None
