"""The command `python -m molecular_screen --molecules N [--out FILE] [--workers W]`.

Tables go to standard output and progress to standard error; the last line names the report. The design loop
(`--rounds`, `--batch`, `--no-design`) runs after the screen. If the screen's requirements are not installed, the
command prints one line and exits with 2; if only the loop's are missing, it skips the loop.
"""

import argparse
import importlib.util
import os
import shlex
import sys
from collections.abc import Sequence

from molecular_screen import INSTALL_HINT

NEEDED = ("rdkit", "numpy", "datamol")
CANDIDATE_COUNT_MAX = 2_000
"""The largest number of candidates of the design loop, which predicts all of them in every round. Finding so many takes
a second or two."""


def arguments(given: Sequence[str]) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m molecular_screen",
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
    parser.add_argument("--seed", type=int, default=0, help="of the library, the folds, the loop")
    loop = parser.add_argument_group("design loop", "active learning with quantum chemistry")
    loop.add_argument("--rounds", type=_positive, default=5, metavar="R", help="default 5")
    loop.add_argument(
        "--batch", type=_positive, default=16, metavar="K", help="molecules a round (default 16)"
    )
    loop.add_argument("--no-design", action="store_true", help="leave the loop out")
    return parser.parse_args(given)


def _positive(text: str) -> int:
    number = int(text.replace("_", ""))
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not a positive number")
    return number


def main(given: Sequence[str]) -> int:
    """Runs the command. Returns its exit status."""
    options = arguments(given)
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        print(f"The screen needs {', '.join(missing)}: {INSTALL_HINT}", file=sys.stderr)
        return 2
    from molecular_screen import report, run

    command = shlex.join(["python", "-m", "molecular_screen", *given])
    reason = left_out(options)
    found = run.run(
        options.molecules,
        options.workers,
        options.seed,
        command,
        candidate_count=0 if reason else CANDIDATE_COUNT_MAX,
    )
    print(report.printed(found), flush=True)
    section = "" if reason else designed(found.candidates, options)
    if reason and not options.no_design:
        print(f"The design loop is left out: {reason}", file=sys.stderr)
    with open(options.out, "w", encoding="utf-8") as page:
        page.write(report.html(found, section))
    print(f"\nThe report with drawings: {os.path.abspath(options.out)}")
    return 0


def left_out(options: argparse.Namespace) -> str | None:
    """Returns the reason why the design loop is left out, or `None` if it runs."""
    if options.no_design:
        return "--no-design"
    from molecular_screen import design

    return design.lacking()


def designed(candidates: list[str], options: argparse.Namespace) -> str:
    """Runs the design loop and prints its results. Returns its section of the report."""
    from molecular_screen.design import page, printed, run
    from molecular_screen.design.outcome import Plan

    plan = Plan(options.rounds, options.batch, options.seed)
    if len(candidates) < 2 * plan.first_count:
        print(f"too few small molecules for a design loop: {len(candidates)}", file=sys.stderr)
        return ""
    print(f"designing with {len(candidates):,} small molecules", file=sys.stderr, flush=True)
    found = run.run(candidates, options.workers, plan, printed.progress)
    print(f"\n{printed.text(found)}")
    return page.section(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
