"""The command that compares two commits: `python -m benches.compare COMMIT ROW...`."""

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any

from benches import engines
from benches.__main__ import run_block
from benches.compare import instructions
from benches.compare.builds import Build, build
from benches.compare.counted_tasks import PROGRAMS
from benches.compare.ratios import Estimate, estimate, gains
from benches.engines import PEERS
from benches.model import ALONE, Better, Block, Row, Settings, Unavailable
from benches.rows import GROUPS, ROWS
from gristmill import instruments

PAIRS, PAIRS_MAX = 25, 100
#: The names of blocks that measure ours without a peer, or beside that one.
CONTESTS = (ALONE, *PEERS)


class Comparison:
    """A block of a row measured on two builds: for each series the samples of base, head, and head once more."""

    SIDES = ("base", "head", "again")

    def __init__(self, row: Row, block: Block, base: Build, head: Build) -> None:
        self.row = row
        self.builds = {"base": base, "head": head, "again": head}
        self.better: dict[str, Better] = {}
        self.block = block
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
        """Measures one build once, by the rows of head; returns its series.

        Raises ``Unavailable`` if a series cannot be measured.
        """
        measured, rows = self.builds[side], self.builds["head"].tree
        with tempfile.TemporaryDirectory(prefix="gb-", ignore_cleanup_errors=True) as folder:
            into = Path(folder, "recording.json")
            command = [sys.executable, "-m", "benches.child", self.row.key, self.block.name]
            command += ["--into", str(into), "--ours", engines.OURS, "--quick", "--alone"]
            reason = run_block(
                command, self.block.timeout_s, Path(folder), rows, measured.environment()
            )
            found: dict[str, Any] = (
                json.loads(into.read_text()) if into.exists() else {"missing": {"*": reason}}
            )
        if found["missing"]:
            raise Unavailable(f"{measured.commit}: {', '.join(found['missing'].values())}")
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


def blocks_of(row: Row) -> list[Block]:
    """Returns the blocks that measure our engine: all of them, or one if they differ only by the peer."""
    with_ours = {line.block for line in row.lines() if line.ours}
    all_blocks = row.blocks(Settings(quick=True, is_alone=True))
    blocks = {block.name: block for block in all_blocks if block.name in with_ours}
    if not all(is_contest(block) for block in blocks.values()):
        return list(blocks.values())
    return [blocks[min(blocks, key=CONTESTS.index)]]


def is_contest(block: Block) -> bool:
    """Returns whether a block differs from others of its row only by the peer."""
    return block.name in CONTESTS


def compare(row: Row, base: Build, head: Build, pairs: int) -> Iterator[tuple[str, ...]]:
    """Measures a row; returns a line of the table for each series."""
    for block in blocks_of(row):
        name = row.key if is_contest(block) else f"{row.key} {block.name}"
        comparison = Comparison(row, block, base, head)
        try:
            comparison.measure(pairs)
            if not comparison.is_resolved() and pairs < PAIRS_MAX:
                comparison.measure(PAIRS_MAX - pairs)
        except Unavailable as reason:
            yield (name, "", "", f"not measured: {reason}")
            continue
        for key in comparison.better:
            found, same = comparison.estimates(key)
            yield (f"{name} {key}", str(same), str(found), found.verdict)


def counted(keys: list[str], base: Build, head: Build) -> Iterator[tuple[str, ...]]:
    """Counts the instructions of rows; returns a line of the table for each, or none where they cannot be counted."""
    if not keys:
        return
    try:
        counter = instructions.Counter()
        counter.check(head)
    except OSError as error:
        print(error, file=sys.stderr)
        return
    builds = dict(zip(Comparison.SIDES, (base, head, head), strict=True))
    for key in keys:
        found, same = instructions.compare(counter, key, builds)
        yield (f"{key} instructions", str(same), str(found), instructions.verdict(found, same))


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
    print(
        f"{base.commit} -> {head.commit}; above 1 is better; median ratio of pairs [95 % interval]"
    )
    print_line("row", "A/A", "compared", "verdict")
    is_worse = False
    measured = (line for key in keys for line in compare(ROWS[key], base, head, options.pairs))
    in_instructions = counted([key for key in keys if key in PROGRAMS], base, head)
    for line in chain(measured, in_instructions):
        print_line(*line)
        is_worse |= line[-1] == "WORSE"
    return 1 if is_worse else 0


def print_line(row: str, same: str, found: str, verdict: str) -> None:
    """Prints a line of the table as soon as it is known."""
    print(f"{row:28}  {same:20}  {found:20}  {verdict}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
