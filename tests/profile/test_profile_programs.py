"""A profiled program runs as it would by itself, whatever it does with its folder, its main module and its children."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

#: A program with a thread that continues after the end of its main thread, and pickles a function by name.
LATE = """
import pickle, threading

def double(number):
    return 2 * number

def work():
    threading.main_thread().join()
    print(pickle.loads(pickle.dumps(double))(21), __name__, __file__)

threading.Thread(target=work).start()
"""
AT_END = """
import atexit, pickle, sys

class Kept:
    pass

atexit.register(lambda: print(type(pickle.loads(pickle.dumps(Kept()))).__module__))
sys.exit(4)
"""


def run(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gristmill._cli", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.usefixtures("may_profile")
@pytest.mark.parametrize("words", [["profile", "late.py"], ["profile", "--", "-m", "late"]])
def test_what_a_program_defines_is_found_after_its_main_thread_has_ended(
    words: list[str], tmp_path: Path
) -> None:
    (tmp_path / "late.py").write_text(LATE)
    done = run(*words, folder=tmp_path)
    said = f"42 __main__ {tmp_path / 'late.py'}\n"
    assert (done.stdout, done.returncode) == (said, 0), done.stderr


def test_a_traced_program_has_its_main_module_until_it_has_ended(tmp_path: Path) -> None:
    (tmp_path / "end.py").write_text(AT_END)
    done = run("trace", "end.py", folder=tmp_path)
    assert (done.stdout, done.returncode) == ("__main__\n", 4), done.stderr


def test_a_package_and_an_archive_are_run_by_their_main_modules(tmp_path: Path) -> None:
    main = "import sys\nprint(sys.argv[1:], __package__, sys.argv[0] == __file__)\n"
    (tmp_path / "whole").mkdir()
    (tmp_path / "whole" / "__init__.py").touch()
    (tmp_path / "whole" / "__main__.py").write_text(main)
    done = run("trace", "--", "-m", "whole", "word", folder=tmp_path)
    assert (done.stdout, done.returncode) == ("['word'] whole True\n", 0), done.stderr
    with zipfile.ZipFile(tmp_path / "whole.pyz", "w") as archive:
        archive.writestr("__main__.py", "print('of an archive')\n")
    done = run("trace", "whole.pyz", folder=tmp_path)
    assert (done.stdout, done.returncode) == ("of an archive\n", 0), done.stderr


def test_a_module_that_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "__init__.py").touch()
    for name in ("nowhere", "nowhere.inside", "plain"):
        done = run("trace", "--", "-m", name, folder=tmp_path)
        assert done.returncode == 1
        said = done.stderr.splitlines()[-1]
        assert name in said
        assert "No module named" in said, "as Python says it"


@pytest.mark.usefixtures("may_profile")
def test_a_program_may_leave_its_folder(tmp_path: Path) -> None:
    (tmp_path / "leaves.py").write_text("import os\nos.mkdir('sub')\nos.chdir('sub')\n")
    done = run("profile", "--output", "found", "leaves.py", folder=tmp_path)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert "tracked objects" in done.stderr
    traced = ["trace", "--record", "timings", "--html", "page", "leaves.py"]
    (tmp_path / "sub").rmdir()
    assert run(*traced, folder=tmp_path).returncode == 0
    assert {"timings", "page"} <= set(os.listdir(tmp_path))


@pytest.mark.usefixtures("may_profile")
def test_arguments_that_are_no_text_are_shown_as_they_can_be(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import sys\nsys.exit(len(sys.argv[1]))\n")
    done = run("profile", "--output", "out", "program.py", os.fsdecode(b"<\xff"), folder=tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "&lt;\\udcff" in (tmp_path / "out" / "report.html").read_text("utf-8")


def test_a_comparison_waits_for_programs_and_not_for_what_they_leave(tmp_path: Path) -> None:
    (tmp_path / "leaves.py").write_text(
        "import os, subprocess, sys\n"
        "left = subprocess.Popen(['sleep', '3600'], stdin=subprocess.DEVNULL)\n"
        "with open('left', 'a') as file: print(left.pid, file=file)\n"
    )
    code = (
        "from gristmill._profile.collector import compare; print(compare(['leaves.py'], 1).text())"
    )
    try:
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
    finally:
        for process in (tmp_path / "left").read_text().split():
            os.kill(int(process), signal.SIGKILL)
    assert "1 of each in turns" in done.stdout


@pytest.mark.usefixtures("may_profile", "interrupts")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_comparison_that_is_ended_leaves_no_program_and_what_was_found(
    number: signal.Signals, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "begun")
    (tmp_path / "slow.py").write_text(
        "import gc, os, sys, time\n"
        "if 'again' not in os.listdir():\n    os.mkdir('again')\n    sys.exit()\n"
        "with open('begun', 'w') as file: file.write(str(os.getpid()))\n"
        "time.sleep(3600)\n"
    )
    command = [sys.executable, "-m", "gristmill._cli", "profile", "--compare-gc", "1", "slow.py"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        compared = os.pidfd_open(int((tmp_path / "begun").read_text()))
        process.send_signal(number)
        said = process.communicate()[1]
    select.select([compared], [], [])
    os.close(compared)
    if number == signal.SIGINT:
        assert process.returncode == 1
        assert "tracked objects" in said
        assert "no comparison of collectors: it was interrupted" in said
