"""The command: `python -m gristmill.screen --molecules N [--out FILE] [--workers W]`.

Standard output carries the tables, standard error the progress; the last line says where the
report is. Exits with 2 and one line when something it needs is not installed.
"""

import argparse
import importlib.util
import os
import shlex
import sys
from collections.abc import Sequence

NEEDED = ("rdkit", "numpy", "datamol")
INSTALL_HINT = "pip install --no-deps -r requirements/screen.txt"


def arguments(given: Sequence[str]) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m gristmill.screen",
        description="Trains a cheap model on measured values and scores molecules, one a task.",
    )
    parser.add_argument(
        "--molecules",
        type=_positive,
        default=100_000,
        metavar="N",
        help="how many: real ones first, then ones made by reaction rules (default 100000)",
    )
    parser.add_argument("--out", default="screen-report.html", help="the report (HTML)")
    parser.add_argument("--workers", type=_positive, default=2, metavar="W", help="default 2")
    parser.add_argument("--seed", type=int, default=0, help="of the library and the folds")
    return parser.parse_args(given)


def _positive(text: str) -> int:
    number = int(text.replace("_", ""))
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not a positive number")
    return number


def main(given: Sequence[str]) -> int:
    """Runs the command; answers its exit status."""
    options = arguments(given)
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        print(f"The screen needs {', '.join(missing)}: {INSTALL_HINT}", file=sys.stderr)
        return 2
    from gristmill.screen import report, run

    command = shlex.join(["python", "-m", "gristmill.screen", *given])
    found = run.run(options.molecules, options.workers, options.seed, command)
    with open(options.out, "w", encoding="utf-8") as page:
        page.write(report.html(found))
    print(report.printed(found))
    print(f"\nThe report with drawings: {os.path.abspath(options.out)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
