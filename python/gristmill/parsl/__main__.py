"""``python -m gristmill.parsl program.py``: runs a Parsl program on Gristmill's kernel."""

from __future__ import annotations

import argparse
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
    from gristmill.parsl.program import run_program

    install(engine=chosen.engine, max_workers=chosen.workers)
    run_program(Path(chosen.program), chosen.arguments)


if __name__ == "__main__":
    main()
