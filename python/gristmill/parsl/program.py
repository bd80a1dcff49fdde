"""Runs a program's file as ``__main__``."""

from __future__ import annotations

import builtins
import io
import sys
from pathlib import Path


def run_program(program: Path, arguments: list[str]) -> None:
    """Runs the file in place of the program that is running now, given these arguments.

    In the real ``__main__``, so that what it defines is found there until the interpreter has ended.
    """
    import __main__

    path = program.resolve()
    with io.open_code(str(path)) as file:
        code = compile(file.read(), str(program), "exec")
    sys.argv[:] = [str(program), *arguments]
    sys.path[0] = str(path.parent)
    namespace = __main__.__dict__
    namespace.clear()
    namespace.update(__name__="__main__", __file__=str(program), __builtins__=builtins)
    exec(code, namespace)
