"""Runs pytest until every test has an outcome: after a test in which it dies, it goes on with the next one."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import tally

#: Longer than a test may take (see pytest.ini): pytest-timeout cannot end a test that holds the interpreter.
_SILENCE_S = 400
#: All tests passed, some failed, there were none.
_OWN_ENDS = ("exited with 0", "exited with 1", "exited with 5")


def run(command: Sequence[str], folder: Path, environment: Mapping[str, str], path: Path) -> None:
    """Runs it as often as it dies.

    :param path: the file to which the plugin of pytest tells what becomes of the tests; emptied first.
    """
    path.write_text("")
    # Shells let what runs in the background ignore them, which is inherited; tests send them to processes of theirs.
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
    """Gives how it ended."""
    with subprocess.Popen(command, cwd=folder, env=environment, start_new_session=True) as process:
        try:
            return _wait(process, path)
        finally:
            _end_session(process.pid)


def _end_session(session: int) -> None:
    """Kills what is left of it and of what its tests began: workers of Parsl are in groups of their own."""
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
