"""Runs of the probes of an executor, in processes that a probe may hang or kill."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gristmill import instruments
from gristmill.instruments import THREAD_VARIABLES
from gristmill_bench import apart, plugins
from gristmill_bench.errors import BenchError
from gristmill_bench.probes.child import ANSWERS, LOG, QUESTIONS
from gristmill_bench.probes.probe import DIES, HANGS, Probe

#: Seconds for the probes of one process, after which the running probe counts as hanging.
_LIMIT_S = 90


def ask(executor: dict[str, Any], probes: Sequence[Probe]) -> dict[str, float]:
    """Returns the answers of an executor, by row. A probe whose distribution is not installed has no answer.

    :param executor: its name and fields, as in a configuration.

    Raises ``BenchError`` if the executor runs no task.
    """
    fields = {name: one for name, one in executor.items() if name != "name"}
    plugins.make("executor", executor["name"], fields)
    found: dict[str, float] = {}
    ready = [one for one in probes if one.needs is None or find_spec(one.needs)]
    for _, group in groupby(ready, key=lambda one: one.is_limited):
        left = list(group)
        while left:
            answered = _ask(executor, left)
            found |= answered
            left = [one for one in left if one.rows[0] not in answered]
    return found


def _ask(executor: dict[str, Any], probes: Sequence[Probe]) -> dict[str, float]:
    """Returns the answers from one process, which has one for the first probe at least."""
    with TemporaryDirectory(prefix="gb-", ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch)
        questions = {"executor": executor, "probes": [one.rows[0] for one in probes]}
        (folder / QUESTIONS).write_text(json.dumps(questions))
        log = folder / LOG
        command = [str(_LIMIT_S), str(log), ""]
        # Memory that killed workers leave goes with their namespace, if there are namespaces.
        command += apart.command([], folder) if apart.missing() is None else []
        command += [sys.executable, "-P", "-m", "gristmill_bench.probes.child", scratch]
        told = dict.fromkeys(THREAD_VARIABLES, "1") | {"TMPDIR": scratch}
        status = instruments.run_below(command, os.environ | told)
        noted = _noted(folder / ANSWERS)
        if not noted:
            raise BenchError(
                f"{executor['name']} runs no task: {instruments.last_line(log) or status}"
            )
    return answers_of(noted, probes, status)


def answers_of(
    noted: Sequence[dict[str, Any]], probes: Sequence[Probe], status: int
) -> dict[str, float]:
    """Returns the answers that a process noted before it ended with a status.

    A probe without an answer has hung, or has ended the process.
    """
    end = HANGS if status == instruments.TIMED_OUT else DIES
    rows = {one.rows[0]: one.rows for one in probes}
    found: dict[str, float] = {}
    for note in noted:
        found |= note.get("found") or dict.fromkeys(rows[note["asked"]], end)
    return found


def _noted(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
