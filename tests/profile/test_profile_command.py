"""``gristmill profile`` runs a program unchanged and reports where the time of its threads went."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

PROGRAM = """
import gc, os, sys, threading, time
import gristmill

def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(1000))

if __name__ == "__main__":
    print(sys.stdin.read(), sys.argv[1:], __name__)
    kept = [[number] for number in range(50_000)]
    gc.collect()
    beside = threading.Thread(target=spin, args=(0.8,), name="spinner 7")
    beside.start()
    with gristmill.Executor(1) as executor:
        list(executor.map(spin, [0.05] * 15))
    beside.join()
    os.write(2, b"said aside\\n")
    sys.exit(3)
"""


def profile(
    *words: str, stdin: str = "", environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gristmill._cli", "profile", *words],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | (environment or {}),
    )


class Page(HTMLParser):
    """A parser that collects the resources that a page would load, and checks that each opened tag is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loaded += [str(value) for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.usefixtures("may_profile")
def test_a_profiled_program_does_what_it_does_and_leaves_a_report(tmp_path: Path) -> None:
    program, folder = tmp_path / "program.py", tmp_path / "out"
    program.write_text(PROGRAM)
    done = profile("--rate", "50", "--timings", "9", "--output", str(folder), str(program), "<b>", stdin="in")  # fmt: skip
    assert (done.stdout, done.returncode) == ("in ['<b>'] __main__\n", 3)
    assert "said aside\n" in done.stderr
    found = json.loads((folder / "profile.json").read_text())
    rows = {(row["process"], row["thread"]): row for row in found["rows"]}
    assert {("program", "MainThread"), ("program", "spinner N"), ("worker", "MainThread")} <= set(
        rows
    )
    assert ("keeper", "MainThread") in rows
    assert not any("_profile" in thread + process for process, thread in rows)
    for name in (("program", "spinner N"), ("worker", "MainThread")):
        assert max(rows[name]["categories"], key=rows[name]["categories"].get) == "program", name
    assert all(len(row["categories"]) <= 10 for row in rows.values())
    _check_garbage(found["garbage"])
    assert len(found["timings"]) == 6
    _check_page((folder / "report.html").read_text(), str(program))
    _check_timeline(json.loads((folder / "timeline.json").read_text()))


def _check_garbage(garbage: dict[str, object]) -> None:
    generations, counts = garbage["generations"], garbage["counts"]
    assert isinstance(generations, list)
    assert isinstance(counts, list)
    assert generations[-1]["collections"] >= 1
    # At the start there is some garbage too, which is gone once the lists exist.
    assert max(tracked for _, tracked, _ in counts) > counts[0][1] + 49_000


def _check_page(text: str, program: str) -> None:
    page = Page()
    page.feed(text)
    assert not page.open
    assert not page.loaded
    assert not re.search(r"https?:|url\(|@import", text)
    assert "prefers-color-scheme: dark" in text
    assert program in text
    assert "&lt;b&gt;" in text
    assert "<b>'" not in text


def _check_timeline(document: dict[str, list[dict[str, object]]]) -> None:
    events = document["traceEvents"]
    assert {"runs"} <= {one["name"] for one in events if one["ph"] == "X"}
    assert all(float(str(one["dur"])) > 0 for one in events if one["ph"] == "X")
    assert any(one["ph"] == "C" for one in events)


@pytest.mark.slow
@pytest.mark.usefixtures("may_profile")
def test_processes_that_lost_their_parent_are_seen_and_a_module_can_be_run(tmp_path: Path) -> None:
    (tmp_path / "left.py").write_text(
        "import pathlib, time\n"
        "def outlives():\n    while time.process_time() < 1: pass\n"
        "outlives()\npathlib.Path('done').touch()\n"
    )
    (tmp_path / "whole.py").write_text(
        "import os, shlex, subprocess, sys, time\n"
        "subprocess.run(['sh', '-c', f'{shlex.quote(sys.executable)} left.py & sleep 0.1'])\n"
        "while not os.path.exists('done'): time.sleep(0.01)\n"
    )
    folder = tmp_path / "out"
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "gristmill._cli",
            "profile",
            "--output",
            str(folder),
            "--",
            "-m",
            "whole",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "outlives" in (folder / "stacks.folded").read_text()
    assert "left.py" in done.stderr


@pytest.mark.usefixtures("may_profile")
def test_a_program_that_kills_itself_ends_so_and_is_still_shown(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import os, time\ntime.sleep(0.3)\nos.kill(os.getpid(), 9)\n")
    done = profile(str(program))
    assert done.returncode == 128 + signal.SIGKILL
    assert "its objects were not counted" in done.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("may_profile")
def test_runs_with_and_without_the_collector_are_compared(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import gc\nprint(gc.isenabled())\n")
    done = profile("--compare-gc", "1", str(program))
    assert (done.stdout, done.returncode) == ("True\n", 0)
    assert "s with the collector" in done.stderr


@pytest.mark.slow
def test_what_cannot_be_profiled_is_said_before_it_runs(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("print('ran')\n")
    binary = tmp_path / "binary"
    binary.write_bytes(b"\x7fELF")
    binary.chmod(0o755)
    here = {"PATH": str(tmp_path)}
    for words, said in (
        (["nowhere.py"], "there is no file nowhere.py"),
        (["binary"], "is not a Python program"),
        (["--", "-m"], "followed by no module"),
        (["--rate", "0", str(program)], "--rate must be between"),
        (["--compare-gc", "-1", str(program)], "must not be negative"),
        (["--quiet", str(program)], "--quiet needs --output"),
        (["--output", str(program), str(program)], "File exists"),
    ):
        done = profile(*words, environment=here)
        assert (done.returncode, done.stdout) == (2, ""), words
        assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_sampler_that_is_refused_ends_before_the_program_begins(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("print('ran')\n")
    spy = tmp_path / "py-spy"
    spy.write_text("#!/bin/sh\necho 'Error: Permission denied (os error 13)' >&2\nexit 1\n")
    spy.chmod(0o755)
    code = (
        f"import sys; from gristmill._profile import permission; permission.sampler = lambda: {str(spy)!r}\n"
        "from gristmill._cli import main; sys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "profile", str(program)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "not permitted" in done.stderr
    assert "ptrace_scope" in done.stderr
