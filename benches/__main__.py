"""The command that measures the rows and prints the table: `python -m benches [ROW...] [--peers] [--quick]`."""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any, TextIO

from benches import engines, machine
from benches.engines.ours import build_info
from benches.model import Block, Row, Settings
from benches.rows import GROUPS, ROWS
from benches.table import Verdict, quantity, render, verdict
from gristmill import instruments

#: The requirements of the peers and of the rows of contexts.
PEERS_FILES = [machine.ROOT / "requirements" / f"{name}.txt" for name in ("peers", "contexts")]


class Bench:
    """One run: its settings, the peers that take part, the file of raw series."""

    def __init__(self, settings: Settings, against: list[str], log: TextIO, path: Path) -> None:
        self.settings = settings
        self.against = against
        self.log = log
        self.path = path

    def write(self, kind: str, **fields: Any) -> None:
        """Appends one JSON line."""
        self.log.write(json.dumps({"kind": kind, **fields}) + "\n")
        self.log.flush()

    def row(self, row: Row) -> list[Verdict]:
        """Measures all blocks of a row; those with repeats take turns."""
        series: dict[tuple[str, str], list[float]] = {}
        missing: dict[tuple[str, str], str] = {}
        blocks = row.blocks(self.settings)
        for turn in range(max(block.repeats for block in blocks)):
            for block in blocks:
                if turn < block.repeats and (block.name, "*") not in missing:
                    found = self.block(row, block)
                    for key, samples in found["series"].items():
                        series.setdefault((block.name, key), []).extend(samples)
                    for key, reason in found["missing"].items():
                        missing[block.name, key] = reason
        verdicts = []
        for line in row.lines():
            places = [(line.block, "*"), (line.block, line.ours)]
            if line.reference:
                other = line.reference_block or line.block
                places += [(other, "*"), (other, line.reference)]
            reasons = [missing[place] for place in places if place in missing]
            verdicts.append(verdict(line, series, row.unit, reasons[0] if reasons else "no series"))
        chart = self.path.with_name(f"{self.path.stem}-{row.key}.svg")
        if row.draw(series, chart):
            print(f"{row.key}: drawn in {chart}", file=sys.stderr)
        return verdicts

    def block(self, row: Row, block: Block) -> dict[str, Any]:
        """Measures one block in a fresh process, and writes its series to the log."""
        empty: dict[str, Any] = {"series": {}, "units": {}, "parameters": {}}
        if block.name in engines.PEERS:
            if block.name not in self.against:
                return {**empty, "missing": {"*": "left out"}}
            if engines.PEERS[block.name].version() is None:
                return {**empty, "missing": {"*": "not installed"}}
        start, before = time.monotonic(), machine.disturbance()
        with tempfile.TemporaryDirectory(prefix="gb-", ignore_cleanup_errors=True) as folder:
            into = Path(folder, "recording.json")
            command = [sys.executable, "-m", "benches.child", row.key, block.name]
            command += ["--into", str(into), "--ours", self.settings.ours]
            command += ["--quick"] if self.settings.quick else []
            reason = run_block(command, block.timeout_s, Path(folder))
            written = json.loads(into.read_text()) if into.exists() else None
        found: dict[str, Any] = written or {**empty, "missing": {"*": reason or "no recording"}}
        took = time.monotonic() - start
        place = {"row": row.key, "block": block.name, "parameters": found["parameters"]}
        around = {"before": before, "after": machine.disturbance(), "took_s": round(took, 3)}
        for key, samples in found["series"].items():
            unit = found["units"][key]
            self.write("series", **place, series=key, unit=unit, **around, samples=samples)
        for key, reason in found["missing"].items():
            self.write("missing", **place, series=key, reason=reason, **around)
        medians = {
            key: quantity(median(samples), found["units"][key])
            for key, samples in found["series"].items()
        }
        note = found["missing"] or ""
        print(f"{row.key}/{block.name}: {medians} {note} {took:.1f} s", file=sys.stderr)
        return found


def run_block(
    command: list[str],
    timeout_s: float,
    folder: Path,
    tree: Path = machine.ROOT,
    environment: Mapping[str, str] = os.environ,
) -> str | None:
    """Runs a command with a folder for its output and temporary files. Returns the reason of its failure, or None.

    :param tree: folder that it is started in, whose `benches` it imports.
    """
    log = folder / "log"
    variables = {**environment, "TMPDIR": str(folder)}
    # The command that bounds the run starts in this folder; the measured one in its own.
    into = ["env", "--chdir", str(tree), *command]
    status = instruments.run_bounded(into, timeout_s, log, variables)
    if status is None:
        return f"no result within {timeout_s:.0f} s"
    return None if status == 0 else f"failed ({status}): {instruments.last_line(log)}"


def main() -> int:
    """Parses the command line, measures, and prints the table."""
    options = arguments()
    if options.list:
        print("\n".join(f"{row.key:19}{row.title}" for row in ROWS.values()))
        print("\n".join(f"{name:19}{', '.join(keys)}" for name, keys in GROUPS.items()))
        return 0
    if options.peers:
        install = [sys.executable, "-m", "pip", "install", "--quiet"]
        install += [word for file in PEERS_FILES for word in ("-r", str(file))]
        subprocess.run(install, check=True)
    refusal = refused(options.ours)
    if refusal:
        print(refusal, file=sys.stderr)
        return 2
    settings = Settings(quick=options.quick, ours=options.ours)
    # SIGTERM also ends the run's descendants, instead of leaving them to init.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    instruments.adopt_orphans()
    folder = machine.ROOT / "bench-results"
    folder.mkdir(exist_ok=True)
    path = folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{machine.commit()}.jsonl"
    verdicts: list[Verdict] = []
    load = machine.disturbance()["load_1_min"]
    with path.open("w", encoding="utf-8") as log:
        bench = Bench(settings, options.against, log, path)
        versions = {key: engine.version() for key, engine in engines.ENGINES.items()}
        bench.write(
            "run",
            started=time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            command=sys.argv[1:],
            settings=asdict(settings),
            machine=machine.fingerprint(),
            versions=versions,
            build=build_info() if options.ours == engines.OURS else {},
        )
        for key in options.rows or ROWS:
            found = bench.row(ROWS[key])
            for one in found:
                names = (
                    "row",
                    "ours",
                    "beside",
                    "of beside",
                    "ratio",
                    "must",
                    "moonshot",
                    "reached",
                )
                bench.write("line", key=key, **dict(zip(names, one.cells(), strict=True)))
            verdicts += found
    if options.ours != engines.OURS:
        print(f"'ours' is {engines.ENGINES[options.ours].name} standing in: not our figures")
    if options.quick:
        print("quick: short samples, a smaller flat row; not the figures to publish")
    print(render(verdicts))
    print(f"load average before the run, by others: {load:.2f}; a quiet machine is below 0.3")
    print(f"raw series: {path.relative_to(machine.ROOT)}")
    return 0


def arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__)
    parser.add_argument(
        "rows", nargs="*", metavar="ROW", help="rows or groups of rows to measure; all by default"
    )
    parser.add_argument("--peers", action="store_true", help="install the peers first")
    parser.add_argument("--quick", action="store_true", help="short samples")
    parser.add_argument("--list", action="store_true", help="list the rows")
    parser.add_argument(
        "--against",
        type=lambda text: text.split(","),
        default=list(engines.PEERS),
        metavar="PEER,...",
        help=f"peers to measure: {', '.join(engines.PEERS)}",
    )
    parser.add_argument(
        "--ours",
        default=engines.OURS,
        choices=engines.ENGINES,
        help="engine that stands in for ours, to try the harness",
    )
    options = parser.parse_args()
    options.rows = [one for key in options.rows for one in GROUPS.get(key, (key,))]
    unknown = [key for key in options.rows if key not in ROWS]
    unknown += [key for key in options.against if key and key not in engines.PEERS]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; see --list and --help")
    return options


def refused(ours: str) -> str | None:
    """Returns the reason why nothing can be measured, such as a missing build or no release build, or None."""
    if ours != engines.OURS:
        return None
    if engines.ENGINES[ours].version() is None:
        return "gristmill is not installed here: run ./dev build, then ./dev bench"
    profile = build_info().get("profile")
    if profile != "release":
        return f"gristmill is built with profile {profile!r}: only a release build is measured"
    return None


if __name__ == "__main__":
    sys.exit(main())
