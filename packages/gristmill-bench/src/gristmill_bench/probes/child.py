"""The process in which probes run: ``python -m gristmill_bench.probes.child FOLDER``.

Each probe is noted when it begins and when it is answered, so that a probe that ends the process is known too.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from tempfile import mkdtemp
from time import monotonic
from typing import Any, cast

from gristmill_bench import plugins
from gristmill_bench.executors.base import ExecutorPlugin
from gristmill_bench.probes.features import FEATURES
from gristmill_bench.probes.objects import OBJECTS
from gristmill_bench.probes.probe import HANGS, NO, Hangs, Opened, Probe, nothing, value

#: Files in the folder of the process.
QUESTIONS, ANSWERS, LOG = "questions.json", "answers.jsonl", "log.txt"
#: Every probe, by its first row.
PROBES = {one.rows[0]: one for one in (*FEATURES, *OBJECTS)}
#: Seconds in which an executor has to run its first task.
_START_S = 60.0
#: Limit in seconds that executors get for each task, in probes that try it.
_LIMIT_S = 1.0


def main(folder: Path) -> int:
    """Runs the probes and returns the exit status."""
    asked: dict[str, Any] = json.loads((folder / QUESTIONS).read_text())
    probes = [PROBES[name] for name in asked["probes"]]
    executor = dict(asked["executor"])
    plugin = cast(ExecutorPlugin, plugins.make("executor", executor.pop("name"), executor))
    begun = monotonic()
    backend = plugin.limited(_LIMIT_S if probes[0].is_limited else None).open()
    # Only an executor that runs tasks is probed.
    value(backend.submit(nothing, 0), _START_S)
    first_s = monotonic() - begun
    with (folder / ANSWERS).open("a", buffering=1) as answers:
        for probe in probes:
            answers.write(json.dumps({"asked": probe.rows[0]}) + "\n")
            signs = Path(mkdtemp(dir=folder))
            found = _answers(probe, Opened(backend, plugin.workers, signs, first_s))
            answers.write(json.dumps({"asked": probe.rows[0], "found": found}) + "\n")
            if HANGS in found.values():
                # Its unfinished work would disturb the next probe.
                os._exit(0)
    backend.shutdown()
    return 0


def _answers(probe: Probe, opened: Opened) -> dict[str, float]:
    try:
        return dict(probe.ask(opened))
    except Hangs:
        return dict.fromkeys(probe.rows, HANGS)
    except Exception as error:
        print(f"{probe.rows[0]}: {type(error).__name__}: {error}", flush=True)
        return dict.fromkeys(probe.rows, NO)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
