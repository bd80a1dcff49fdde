"""The command that compares two commits: `python -m benches.compare COMMIT ROW...`."""

import argparse
import json
import random
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from benches import engines
from benches.__main__ import run_block
from benches.compare import instructions
from benches.compare.builds import Build, build
from benches.compare.counted_tasks import PROGRAMS
from benches.compare.ratios import Estimate, estimate, gains
from benches.model import ALONE, Better, Block, Row, Settings
from benches.rows import GROUPS, ROWS
from gristmill import instruments

PAIRS, PAIRS_MAX = 25, 100


class Comparison:
    """A row measured on two builds: for each series the samples of base, head, and head once more."""

    SIDES = ("base", "head", "again")

    def __init__(self, row: Row, base: Build, head: Build) -> None:
        self.row = row
        self.builds = {"base": base, "head": head, "again": head}
        self.better: dict[str, Better] = {}
        self.block = block_of(row)
        for line in row.lines():
            if line.block == self.block.name and line.ours:
                self.better[line.ours] = line.better
        self.samples: dict[str, dict[str, list[float]]] = {
            key: {side: [] for side in self.SIDES} for key in self.better
        }
        self._order = random.Random(0)

    def measure(self, pairs: int) -> None:
        """Takes that many triples of measurements, each in a random order."""
        for number in range(pairs):
            for side in self._order.sample(self.SIDES, len(self.SIDES)):
                series = self._series(side)
                for key, samples in self.samples.items():
                    samples[side].append(median(series[key]))
            print(f"{self.row.key}: pair {number + 1} of {pairs}", file=sys.stderr)

    def _series(self, side: str) -> dict[str, list[float]]:
        """Measures one build once, by the rows of its own commit; returns its series."""
        measured = self.builds[side]
        with tempfile.TemporaryDirectory(prefix="gb-", ignore_cleanup_errors=True) as folder:
            into = Path(folder, "recording.json")
            command = [sys.executable, "-m", "benches.child", self.row.key, self.block.name]
            command += ["--into", str(into), "--ours", engines.OURS, "--quick"]
            reason = run_block(
                command, self.block.timeout_s, Path(folder), measured.tree, measured.environment()
            )
            found: dict[str, Any] = (
                json.loads(into.read_text()) if into.exists() else {"missing": {"*": reason}}
            )
        if found["missing"]:
            raise SystemExit(f"{measured.commit}: {self.row.key}: {found['missing']}")
        series: dict[str, list[float]] = found["series"]
        return series

    def estimates(self, key: str) -> tuple[Estimate, Estimate]:
        """Returns head against base, and head against itself."""
        samples, better = self.samples[key], self.better[key]
        return (
            estimate(gains(samples["base"], samples["head"], better)),
            estimate(gains(samples["again"], samples["head"], better)),
        )

    def is_resolved(self) -> bool:
        """Returns whether all series are decided."""
        return all(self.estimates(key)[0].verdict != "not resolved" for key in self.better)


def block_of(row: Row) -> Block:
    """Returns the block that measures our engine with as little beside it as the row allows."""
    blocks = {block.name: block for block in row.blocks(Settings(quick=True))}
    for name in (ALONE, "ppe", "pool"):
        if name in blocks:
            return blocks[name]
    raise SystemExit(f"{row.key}: each block needs a peer that is not part of Python")


def compare(row: Row, base: Build, head: Build, pairs: int) -> list[tuple[str, ...]]:
    """Measures a row; returns a line of the table for each series."""
    comparison = Comparison(row, base, head)
    comparison.measure(pairs)
    if not comparison.is_resolved() and pairs < PAIRS_MAX:
        comparison.measure(PAIRS_MAX - pairs)
    lines: list[tuple[str, ...]] = []
    for key in comparison.better:
        found, same = comparison.estimates(key)
        lines.append((f"{row.key} {key}", str(same), str(found), found.verdict))
    return lines


def counted(keys: list[str], base: Build, head: Build) -> list[tuple[str, ...]]:
    """Counts the instructions of rows; returns a line of the table for each, or none where they cannot be counted."""
    if not keys:
        return []
    try:
        counter = instructions.Counter()
        counter.check(head)
    except OSError as error:
        print(error, file=sys.stderr)
        return []
    lines: list[tuple[str, ...]] = []
    builds = dict(zip(Comparison.SIDES, (base, head, head), strict=True))
    for key in keys:
        found, same = instructions.compare(counter, key, builds)
        lines.append(
            (f"{key} instructions", str(same), str(found), instructions.verdict(found, same))
        )
    return lines


def main() -> int:
    """Builds, measures, and prints the table; the exit status is 1 if a row is worse."""
    parser = argparse.ArgumentParser(prog="./dev bench --compare", description=__doc__)
    parser.add_argument("commit", help="the commit that HEAD is compared with")
    parser.add_argument("rows", nargs="+", metavar="ROW", help="rows or groups of rows")
    parser.add_argument("--pairs", type=int, default=PAIRS, help="pairs at first; 25 by default")
    options = parser.parse_args()
    keys = [one for key in options.rows for one in GROUPS.get(key, (key,))]
    unknown = [key for key in keys if key not in ROWS]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; ./dev bench --list names the rows")
    if options.pairs < 2:
        parser.error("an interval needs two pairs or more")
    instruments.adopt_orphans()
    try:
        base, head = build(options.commit), build("HEAD")
    except ValueError as error:
        parser.error(str(error))
    lines = [line for key in keys for line in compare(ROWS[key], base, head, options.pairs)]
    lines += counted([key for key in keys if key in PROGRAMS], base, head)
    print(
        f"{base.commit} -> {head.commit}; above 1 is better; median ratio of pairs [95 % interval]"
    )
    heading = ("row", "A/A", "compared", "verdict")
    widths = [max(len(line[place]) for line in [heading, *lines]) for place in range(len(heading))]
    for line in [heading, *lines]:
        print(
            "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        )
    return 1 if any(line[-1] == "WORSE" for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
