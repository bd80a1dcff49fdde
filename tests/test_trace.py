"""``gristmill trace`` runs a program as it is and says where the time of its tasks went."""

import subprocess
import sys
from pathlib import Path

import pytest

from gristmill._trace import COMPONENTS, Sample, table

PROGRAM = """
import sys
import time

import gristmill


if __name__ == "__main__":
    with gristmill.Executor(max_workers=1) as executor:
        futures = [executor.submit(abs, -number) for number in range(50)]
        print(sum(future.result() for future in futures), sys.argv[1])
        print(sum(executor.map(abs, range(-10, 0))))
    sys.exit(3)
"""


def trace(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "gristmill._cli", "trace", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_traced_program_does_what_it_does_and_gets_a_table(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = trace(str(program), "word")
    assert (done.stdout, done.returncode) == ("1225 word\n55\n", 3)
    assert "60 tasks, 60 of them looked at" in done.stderr
    assert all(name in done.stderr for _, _, name in COMPONENTS)


def test_a_missing_program_is_named() -> None:
    done = trace("nowhere.py")
    assert done.returncode == 2
    assert "there is no file nowhere.py" in done.stderr


def test_a_table_shares_out_the_whole_time() -> None:
    tags = {"submitted": 0, "written": 1_000, "claimed": 2_000, "started": 3_000}
    tags |= {"ended": 8_000, "published": 8_000, "drained": 10_000}
    lines = table(1, [tags])
    assert lines[5].split()[-3:] == ["5.00", "5.00", "50.0%"]
    assert sum(float(line.split()[-1].rstrip("%")) for line in lines[2:]) == pytest.approx(100)


def test_a_sample_is_bounded_and_reaches_late_tasks() -> None:
    sample = Sample(10)
    for number in range(1_000):
        sample.offer(number)  # type: ignore[arg-type]
    assert len(sample.futures) == 10
    assert sample.count == 1_000
    assert max(sample.futures) >= 100  # type: ignore[type-var]
