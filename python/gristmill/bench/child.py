"""The process of a run: ``python -m gristmill.bench.child FOLDER`` runs what is described there."""

from __future__ import annotations

import gc
import json
import os
import sys
from pathlib import Path

from gristmill.bench import environment
from gristmill.bench.config import read, resolve
from gristmill.bench.errors import BenchError
from gristmill.bench.run import CONFIGURATION, ENVIRONMENT, SUMMARY, perform


def main(folder: Path) -> int:
    """Runs it, with its folder as the working directory; gives the exit status."""
    folder = folder.resolve()
    try:
        benchmark = resolve(read(folder / CONFIGURATION))
        os.chdir(folder)
        (folder / ENVIRONMENT).write_text(json.dumps(environment.capture(), indent=2))
        if not benchmark.run.collector:
            gc.disable()
        found = perform(benchmark, folder)
    except BenchError as error:
        print(f"gristmill bench: {error}", file=sys.stderr)
        return 1
    (folder / SUMMARY).write_text(json.dumps(found, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
