"""``python -m gristmill.parsl program.py``: runs a Parsl program on Gristmill's kernel."""

from __future__ import annotations

import argparse


def main() -> None:
    """Installs the kernel and runs the program as ``__main__``."""
    parser = argparse.ArgumentParser(
        prog="python -m gristmill.parsl",
        usage="%(prog)s [-h] [--engine] [--workers WORKERS] (program | -m module) [arguments ...]",
        description="Runs a Parsl program, unchanged, on Gristmill's data-flow kernel.",
    )
    parser.add_argument(
        "--engine", action="store_true", help="run tasks on Gristmill's engine on this machine"
    )
    parser.add_argument("--workers", type=int, help="worker processes of the engine")
    parser.add_argument(
        "-m",
        dest="is_module",
        action="store_true",
        help="run a module as the program, like python -m",
    )
    parser.add_argument("program", help="a Python file, or a folder or archive with a __main__.py")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the program")
    chosen = parser.parse_args()
    from gristmill._main_program import run_module, run_program
    from gristmill.parsl._kernel.installation import install

    install(engine=chosen.engine, max_workers=chosen.workers)
    run = run_module if chosen.is_module else run_program
    run(chosen.program, chosen.arguments)


if __name__ == "__main__":
    main()
