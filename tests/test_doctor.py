"""``gristmill doctor`` says what works on this machine, and gives nothing away that is secret."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gristmill._doctor import machine
from gristmill._doctor.findings import bad

DOCTOR = [sys.executable, "-m", "gristmill._cli", "doctor"]


def test_what_works_here_is_found_to_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_SOMEBODY", "in the value")
    report = tmp_path / "report"
    run = subprocess.run([*DOCTOR, "--report", report], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout
    assert run.stderr == ""
    for what in ("executor", "node agent"):
        (line,) = (line for line in run.stdout.splitlines() if line[6:].startswith(what))
        assert line.startswith("ok")
        assert "first result after" in line
    written = report.read_text()
    assert run.stdout.splitlines()[0] in written
    assert "SECRET_OF_SOMEBODY" in written
    assert "in the value" not in written


def test_what_does_not_work_is_named_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.pidfd_open", refuse)
    (found,) = (finding for finding in machine.kernel() if finding.what == "pidfd")
    assert found == bad("pidfd", found.text)
    assert "Linux 5.3" in found.text
