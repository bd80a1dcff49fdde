"""``gristmill doctor`` reports what works on this machine, and reveals no secrets."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from gristmill import _native, _resources
from gristmill._doctor import machine
from gristmill._doctor.findings import Finding, bad, note, ok

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


def test_a_report_that_cannot_be_written_is_named() -> None:
    run = subprocess.run([*DOCTOR, "--report", "/dev/full"], capture_output=True, text=True)
    assert run.returncode == 1
    assert "gristmill doctor: cannot write /dev/full: No space left on device" in run.stderr
    assert "Traceback" not in run.stderr


def test_an_output_that_is_full_is_said_in_a_line() -> None:
    with open("/dev/full", "w") as full:
        run = subprocess.run(DOCTOR, stdout=full, stderr=subprocess.PIPE, text=True)
    assert run.returncode == 1
    assert "gristmill doctor: No space left on device" in run.stderr
    assert "Traceback" not in run.stderr


def found(findings: Iterable[Finding], what: str) -> Finding:
    return next(finding for finding in findings if finding.what == what)


def test_the_memory_of_a_cgroup_is_what_can_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_native, "memory_sizes", lambda: (16 * 10**9, 64 * 10**9))
    text = "16.0 of 64.0 GB can be used: a cgroup sets this limit"
    assert found(machine.cores_and_memory(), "memory") == ok("memory", text)


@pytest.mark.parametrize(
    ("place", "refusals", "finding"),
    [
        ((Path("/var/tmp"), 5 * 10**9), [], ok("spill", "5.0 GB of payloads may go to /var/tmp")),
        (
            (Path("/var/tmp"), 5 * 10**9),
            [(Path("/tmp"), "is memory")],
            ok("spill", "5.0 GB of payloads may go to /var/tmp (/tmp is memory)"),
        ),
        (
            None,
            [(Path("/tmp"), "is memory")],
            note(
                "spill",
                "payloads that do not fit into memory are refused: /tmp is memory; set GRISTMILL_SPILL_DIR",
            ),
        ),
        (
            None,
            [],
            note(
                "spill",
                "payloads that do not fit into memory are refused: GRISTMILL_SPILL_DIR is "
                "empty; set GRISTMILL_SPILL_DIR",
            ),
        ),
    ],
)
def test_where_payloads_go_that_memory_has_no_room_for(
    monkeypatch: pytest.MonkeyPatch, place: object, refusals: object, finding: Finding
) -> None:
    monkeypatch.setattr(_native, "spill_place", lambda: (place, refusals))
    assert found(machine.cores_and_memory(), "spill") == finding


@pytest.mark.parametrize(
    ("there", "visible", "finding"),
    [
        (0, None, ok("GPUs", "none found")),
        (4, None, ok("GPUs", "4 found")),
        (4, "0,1", ok("GPUs", "2 of 4 can be used: CUDA_VISIBLE_DEVICES selects them")),
        (4, "", ok("GPUs", "0 of 4 can be used: CUDA_VISIBLE_DEVICES selects them")),
        (
            1,
            "0,1",
            note(
                "GPUs",
                "2 of 1 can be used: CUDA_VISIBLE_DEVICES selects them, and fewer are found",
            ),
        ),
    ],
)
def test_gpus_are_found_and_what_hides_them_is_named(
    monkeypatch: pytest.MonkeyPatch, there: int, visible: str | None, finding: Finding
) -> None:
    for variable in _resources.GPU_LIMITS:
        monkeypatch.delenv(variable, raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    monkeypatch.setattr(_resources, "gpus_of_machine", lambda: there)
    assert found(machine.cores_and_memory(), "GPUs") == finding


@pytest.mark.parametrize(
    ("allowed", "most", "grade", "words"),
    [
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, "ok", "no limit"),
        (1000, 1000, "ok", "100 of 1000 of this user's run"),
        (150, 4000, "note", "up to 80 more may be needed: ulimit -u 4000"),
        (150, resource.RLIM_INFINITY, "note", "ulimit -u unlimited"),
        (150, 150, "note", "ask for more"),
    ],
)
def test_a_limit_of_processes_is_judged(
    monkeypatch: pytest.MonkeyPatch, allowed: int, most: int, grade: str, words: str
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (allowed, most))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(_native, "cpu_count", lambda: 8)
    monkeypatch.setattr(machine, "_threads_of_user", lambda: 100)
    finding = found(machine.limits(), "processes")
    assert finding.grade == grade
    assert words in finding.text


def test_the_threads_of_this_user_are_counted() -> None:
    assert machine._threads_of_user() >= 1
