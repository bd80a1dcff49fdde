"""``python -m gristmill.parsl program.py``: runs a Parsl program on Gristmill's kernel."""

from __future__ import annotations

import argparse
import io
import sys
from pathlib import Path


def main() -> None:
    """Installs the kernel and runs the program as ``__main__``."""
    parser = argparse.ArgumentParser(
        prog="python -m gristmill.parsl",
        description="Runs a Parsl program, unchanged, on Gristmill's data-flow kernel.",
    )
    parser.add_argument(
        "--engine", action="store_true", help="run tasks on Gristmill's engine on this machine"
    )
    parser.add_argument("--workers", type=int, help="worker processes of the engine")
    parser.add_argument("program", help="a Python file")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="what the program is given")
    chosen = parser.parse_args()
    from gristmill.parsl.installation import install

    install(engine=chosen.engine, max_workers=chosen.workers)
    _run(Path(chosen.program), chosen.arguments)


def _run(program: Path, arguments: list[str]) -> None:
    # In the real __main__: what the program defines is found there until the interpreter has ended.
    import __main__

    with io.open_code(str(program.resolve())) as file:
        code = compile(file.read(), str(program), "exec")
    sys.argv[:] = [str(program), *arguments]
    sys.path[0] = str(program.resolve().parent)
    namespace = __main__.__dict__
    namespace.clear()
    namespace.update(__name__="__main__", __file__=str(program), __builtins__=__builtins__)
    exec(code, namespace)


if __name__ == "__main__":
    main()
