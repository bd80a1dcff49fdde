"""Signals to a profile reach the program, and the profile leaves nothing behind."""

from __future__ import annotations

import os
import select
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
            # A terminal sends it so: to the whole foreground group.
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        output, errors = process.communicate()
    assert (output, process.returncode) == (f"told {number}\n", 7), errors
    assert "tracked objects" in errors
    assert [one.name for one in tmp_path.iterdir()] == ["program.py"]
    assert not _marked(tmp_path)


def _marked(folder: Path) -> list[str]:
    """Returns the test's processes that still run."""
    found = []
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            environment = Path("/proc", process, "environ").read_bytes()
        except OSError:
            continue
        if f"GRISTMILL_MARK={folder}".encode() in environment:
            found.append(process)
    return found


@pytest.mark.usefixtures("may_profile")
def test_what_a_killed_profile_has_left_goes_with_the_next_one_when_its_program_has_ended(
    tmp_path: Path,
) -> None:
    program = tmp_path / "program.py"
    program.write_text("print('ready', flush=True)\ninput()\n")
    command = [sys.executable, "-m", "gristmill._cli", "profile", str(program)]
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    others = scratch / "gristmill-profile-others"
    others.symlink_to(tmp_path)
    environment = os.environ | {"TMPDIR": str(scratch), "GRISTMILL_MARK": str(tmp_path)}

    def next_one() -> set[str]:
        """Runs another profile; returns the folders that exist afterwards."""
        subprocess.run(
            command, env=environment, input="\n", capture_output=True, text=True, check=True
        )
        return {one.name for one in scratch.iterdir()} - {others.name}

    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == b"ready\n"
        guard = _guard_above(program)
        process.kill()
        process.wait()
        assert len(next_one()) == 1, "its program goes on, and will note what it found there"
        process.stdin.write(b"\n")
        process.stdin.close()
        select.select([guard], [], [])
        os.close(guard)
    assert not next_one()
    assert program.exists(), "a link is not a folder of the profile"


def _guard_above(program: Path) -> int:
    """Returns a file descriptor of the process whose child runs the program. It is readable once the process ends."""
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path("/proc", process, "cmdline").read_bytes().split(b"\0")
            parent = Path("/proc", process, "stat").read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue
        if b"gristmill._profile.program" in words and os.fsencode(program) in words:
            return os.pidfd_open(int(parent))
    raise AssertionError("the program is not there")
