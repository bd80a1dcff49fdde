"""What a terminal and others tell a profile reaches the program, and nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import signal, sys, time
def answer(number, _frame):
    print("told", number, flush=True)
    sys.exit(7)
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, answer)
print("ready", flush=True)
time.sleep(3600)
"""


@pytest.mark.usefixtures("may_profile")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_answered_by_the_program(number: signal.Signals, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "gristmill._cli", "profile", str(program)]
    mark = {"GRISTMILL_MARK": str(tmp_path), "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | mark,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        if number == signal.SIGINT:
            # As a terminal does it: to all of the foreground.
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        output, errors = process.communicate()
    assert (output, process.returncode) == (f"told {number}\n", 7), errors
    assert "tracked objects" in errors
    assert [one.name for one in tmp_path.iterdir()] == ["program.py"]
    assert not _marked(tmp_path)


def _marked(folder: Path) -> list[str]:
    """Processes of the test that are still there."""
    found = []
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            environment = Path("/proc", process, "environ").read_bytes()
        except OSError:
            continue
        if f"GRISTMILL_MARK={folder}".encode() in environment:
            found.append(process)
    return found
