"""Supervision of pytest until every test has an outcome: if pytest dies in a test, it continues with the next one."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import tally

#: Limit in seconds, longer than a test may take (see pytest.ini): pytest-timeout cannot end a test that holds the
#: interpreter.
_SILENCE_S = 400
#: Exit codes for: all tests passed, some failed, no tests were found.
_OWN_ENDS = ("exited with 0", "exited with 1", "exited with 5")


def run(command: Sequence[str], folder: Path, environment: Mapping[str, str], path: Path) -> None:
    """Runs pytest, and starts it again each time it dies.

    :param path: tally file to which the pytest plugin writes; emptied first.
    """
    path.write_text("")
    # A shell ignores these signals for background jobs, and children inherit that. Tests send them to their processes.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    while True:
        tested = len(tally.read(path).outcomes)
        how = _run_once(command, folder, environment, path)
        known = tally.read(path)
        if known.has_ended and how in _OWN_ENDS:
            return
        test = known.running or _between(known)
        print(f"== pytest {how} in {test}", flush=True)
        tally.tell(path, "died", test, how)
        if known.has_ended or (known.running is None and len(known.outcomes) == tested):
            return


def _run_once(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], path: Path
) -> str:
    """Runs pytest once. Returns how it ended."""
    with subprocess.Popen(command, cwd=folder, env=environment, start_new_session=True) as process:
        try:
            return _wait(process, path)
        finally:
            _end_session(process.pid)


def _end_session(session: int) -> None:
    """Kills the rest of a session. Its tests may have started other process groups, such as Parsl's workers."""
    for number in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            if os.getsid(int(number)) == session:
                os.kill(int(number), signal.SIGKILL)


def _wait(process: subprocess.Popen[bytes], path: Path) -> str:
    told = -1
    while told != path.stat().st_size:
        told = path.stat().st_size
        with suppress(subprocess.TimeoutExpired):
            code = process.wait(_SILENCE_S)
            return f"exited with {code}" if code >= 0 else f"died of {signal.Signals(-code).name}"
    return f"was silent for {_SILENCE_S} s"


def _between(known: tally.Tally) -> str:
    *_, last = ["the start", *(test for test in known.outcomes if test not in known.deaths)]
    return f"pytest itself, after {last}"
