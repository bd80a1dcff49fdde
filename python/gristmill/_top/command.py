"""The ``gristmill top`` command: a screen that is drawn anew each second, or one look."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time

from gristmill._top import status, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument(
        "--interval", type=float, default=1.0, metavar="SECONDS", help="between two updates (1)"
    )
    parser.add_argument("--once", action="store_true", help="prints one table and ends")


def run(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    """Shows the running executors and returns the exit status."""
    if not options.interval > 0:
        parser.error("--interval must be more than 0")
    try:
        if options.once or not sys.stdout.isatty():
            print("\n".join(_look(options.interval)))
        else:
            import curses

            curses.wrapper(_draw, options.interval)
    except KeyboardInterrupt:
        return 0
    except PermissionError as error:
        print(f"gristmill top: {error}", file=sys.stderr)
        return 1
    return 0


def _key(answer: dict[str, Any]) -> tuple[int, int]:
    return answer["pid"], answer["executor"]


def _look(interval: float) -> list[str]:
    """Asks all programs twice and returns the lines about what happened in between."""
    before = {_key(answer): answer for answer in status.ask_all()}
    began = time.monotonic()
    time.sleep(interval)
    made: list[str] = []
    for answer in status.ask_all():
        earlier = before.get(_key(answer), answer)
        made += [*table.lines(earlier, answer, time.monotonic() - began), ""]
    return made or ["no program of this user runs an executor now"]


def _draw(screen: Any, interval: float) -> None:
    import curses

    with contextlib.suppress(curses.error):  # a terminal without colours
        curses.use_default_colors()
    screen.nodelay(True)
    while screen.getch() not in (ord("q"), 27):
        made = _look(interval)
        height, width = screen.getmaxyx()
        screen.erase()
        for number, line in enumerate(["gristmill top   q: quit", "", *made][: height - 1]):
            screen.addnstr(number, 0, line, width - 1)
        screen.refresh()
