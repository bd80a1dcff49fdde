"""The process of one block: measures it and writes the recording as JSON to a file."""

import argparse
import dataclasses
import json
import os
import sys
import warnings
from pathlib import Path

from benches.model import Recording, Settings, Unavailable
from benches.rows import ROWS


def main() -> int:
    """Measures one block of one row."""
    parser = argparse.ArgumentParser(prog="benches.child")
    parser.add_argument("row", choices=ROWS)
    parser.add_argument("block")
    parser.add_argument("--into", type=Path, required=True)
    parser.add_argument("--ours", required=True)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--alone", action="store_true")
    options = parser.parse_args()
    # Peers fork with running threads and leave files open. Their warnings are irrelevant here.
    warnings.simplefilter("ignore")
    settings = Settings(quick=options.quick, ours=options.ours, is_alone=options.alone)
    try:
        recording = ROWS[options.row].measure(options.block, settings)
    except Unavailable as reason:
        recording = Recording(missing={"*": str(reason)})
    options.into.write_text(json.dumps(dataclasses.asdict(recording)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    status = main()
    sys.stderr.flush()
    # The recording is saved: an engine that hangs in its exit handlers must not delay the run.
    os._exit(status)
