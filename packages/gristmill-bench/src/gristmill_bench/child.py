"""The process of a run: ``python -m gristmill_bench.child FOLDER`` runs the benchmark described in FOLDER."""

from __future__ import annotations

import gc
import json
import os
import sys
import traceback
from pathlib import Path

from gristmill_bench import environment
from gristmill_bench.config import read, resolve
from gristmill_bench.errors import BenchError
from gristmill_bench.folder import CONFIGURATION, ENVIRONMENT, SUMMARY
from gristmill_bench.run import perform


def main(folder: Path) -> int:
    """Runs the benchmark with its folder as the working directory; returns the exit status."""
    folder = folder.resolve()
    try:
        benchmark = resolve(read(folder / CONFIGURATION))
        os.chdir(folder)
        (folder / ENVIRONMENT).write_text(json.dumps(environment.capture(), indent=2))
        if not benchmark.run.collector:
            gc.disable()
        found = perform(benchmark, folder)
        (folder / SUMMARY).write_text(json.dumps(found, indent=2))
    except Exception as error:
        is_told = isinstance(error, BenchError)
        if not is_told:
            traceback.print_exc()
        # The command reports the last line as the reason of a failed run.
        about = "gristmill bench" if is_told else type(error).__name__
        print(f"{about}: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
