"""Runs code as the interpreter's main module, which it stays until the interpreter has ended.

``runpy`` gives ``__main__`` back as soon as the code has run. Threads that go on, handlers of the end and pools that
pickle late would not find there what the program has defined.
"""

from __future__ import annotations

import builtins
import io
import os
import pkgutil
import runpy
import sys
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import find_spec
from types import CodeType, ModuleType
from typing import Any

_MAIN = "__main__"


def run_file(name: str) -> None:
    """Runs a file, as ``python FILE`` does; raises what it raises."""
    path = os.path.abspath(name)
    sys.path[0] = os.path.dirname(path)
    if path.endswith(".pyc") or pkgutil.get_importer(path) is not None:
        # Compiled, or an archive: so rare that ``__main__`` may be given back.
        runpy.run_path(path, run_name=_MAIN)
        return
    with io.open_code(path) as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    loader = SourceFileLoader(_MAIN, path)
    _run(code, __file__=path, __loader__=loader, __package__=None, __spec__=None, __cached__=None)


def run_module(name: str) -> None:
    """Runs a module, or the main module of a package, as ``python -m NAME`` does; raises what it raises.

    :raises ImportError: there is none.
    """
    sys.path[0] = os.getcwd()
    spec = _found(name)
    if spec.submodule_search_locations is not None:
        spec = _found(f"{name}.{_MAIN}")
    code = getattr(spec.loader, "get_code", lambda _: None)(spec.name)
    if code is None:
        raise ImportError(f"No code of {spec.name}")
    sys.argv[0] = spec.origin or name
    facts = {"__loader__": spec.loader, "__package__": spec.parent, "__spec__": spec}
    _run(code, __file__=spec.origin, __cached__=spec.cached, **facts)


def _found(name: str) -> ModuleSpec:
    try:
        spec = find_spec(name)
    except (ImportError, ValueError) as error:
        raise ImportError(f"No module named {name}: {error}") from error
    if spec is None:
        raise ImportError(f"No module named {name}")
    return spec


def _run(code: CodeType, **facts: Any) -> None:
    main = ModuleType(_MAIN)
    main.__dict__.update(facts, __builtins__=builtins)
    sys.modules[_MAIN] = main
    exec(code, main.__dict__)
