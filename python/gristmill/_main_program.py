"""Execution of a program as by ``python``: as ``__main__``, in an interpreter that seems to have run nothing before it.

``gristmill.parsl``, ``gristmill trace`` and ``gristmill profile`` run programs this way. A program stays the main
module until the interpreter has ended. So threads that go on, exit handlers and pools that pickle late find its
definitions.
"""

from __future__ import annotations

import builtins
import importlib.machinery
import io
import os
import pkgutil
import runpy
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

from gristmill import _starting

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, TracebackType


def run_program(program: str, arguments: list[str]) -> None:
    """Runs a file, a folder or an archive with a ``__main__.py``, as ``python program`` does.

    ``multiprocessing`` finds the program's file.
    """
    sys.argv[:] = [program, *arguments]
    path = os.path.abspath(program)
    if pkgutil.get_importer(path) is not None:
        _put_first(path)
        _run_as_main(_module_runner("__main__"))
        return
    real = os.path.realpath(path)
    try:
        with io.open_code(path) as file:
            source = file.read()
    except OSError as error:
        reason = f"[Errno {error.errno}] {error.strerror}"
        _leave(f"{sys.executable}: can't open file {path!r}: {reason}")
    _put_first(os.path.dirname(real))
    loader = importlib.machinery.SourceFileLoader("__main__", path)
    fields = {"__file__": path, "__cached__": None, "__loader__": loader, "__spec__": None}

    def run(namespace: dict[str, Any]) -> None:
        namespace.update(fields)
        exec(_compiled(path, source), namespace)

    _run_as_main(run)


def run_module(name: str, arguments: list[str]) -> None:
    """Runs a module or a package, as ``python -m name`` does."""
    sys.argv[:] = ["-m", *arguments]
    _put_first(os.getcwd())
    _run_as_main(_module_runner(name))


def _module_runner(name: str) -> Callable[[dict[str, Any]], None]:
    def run(namespace: dict[str, Any]) -> None:
        # The interpreter calls this function for `python -m`; the public functions of runpy put `__main__` back.
        runpy._run_module_as_main(name, alter_argv=name != "__main__")  # type: ignore[attr-defined]

    return run


def _compiled(path: str, source: bytes) -> CodeType:
    if path.endswith(".pyc"):
        code = importlib.machinery.SourcelessFileLoader("__main__", path).get_code("__main__")
        if code is not None:
            return code
    # Without the future statements of this module.
    return compile(source, path, "exec", dont_inherit=True)


def _put_first(folder: str) -> None:
    """Makes a folder the first entry of ``sys.path``, in place of the entry that this program was started with."""
    if not sys.flags.safe_path:
        sys.path[: 0 if _starting.is_own() else 1] = [folder]


def _run_as_main(run: Callable[[dict[str, Any]], None]) -> None:
    # A new module: functions of the module that was started keep their own global names.
    main = sys.modules["__main__"] = ModuleType("__main__")
    namespace = main.__dict__
    namespace["__builtins__"] = builtins
    if sys.version_info < (3, 14):
        namespace["__annotations__"] = {}
    try:
        run(namespace)
    except BaseException as error:
        if not isinstance(error, SystemExit) and error.__traceback__ is not None:
            _hide_frames_above(error, _below(error.__traceback__))
        raise


def _below(traceback: TracebackType) -> TracebackType | None:
    """Returns the program's part of a traceback: all entries behind the last frame of this module."""
    entry: TracebackType | None = traceback
    found: TracebackType | None = traceback
    while entry is not None:
        if entry.tb_frame.f_code.co_filename == __file__:
            found = entry.tb_next
        entry = entry.tb_next
    return found


def _hide_frames_above(error: BaseException, traceback: TracebackType | None) -> None:
    """Makes the interpreter print an exception that ends the program without the frames that called the program."""
    hook = sys.excepthook

    def show(kind: type[BaseException], shown: BaseException, whole: Any) -> None:
        sys.excepthook = hook
        if shown is error:
            BaseException.with_traceback(shown, traceback)
            whole = traceback
        hook(kind, shown, whole)

    sys.excepthook = show


def _leave(message: str) -> NoReturn:
    print(message, file=sys.stderr)
    raise SystemExit(2)
