"""``./dev bench --compare``: what the pairs of two commits say of a row."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("gristmill_bench", reason="gristmill-bench is not installed")

from benches.compare import __main__ as comparing
from benches.compare import counted_tasks, instructions
from benches.compare.builds import Build
from benches.compare.counted_tasks import PROGRAMS
from benches.compare.ratios import estimate, gains
from benches.rows import ROWS


def pairs(gain: float, spread: float) -> tuple[list[float], list[float]]:
    """Returns rates of 25 pairs, the second ones higher by the factor ``gain``, with noise that is the same each time."""
    draw = random.Random(1)
    base = [draw.gauss(100, spread) for _ in range(25)]
    return base, [gain * draw.gauss(100, spread) for _ in range(25)]


@pytest.mark.parametrize(
    ("gain", "spread", "verdict"),
    [
        (1.0, 2, "not worse"),
        (0.9, 2, "WORSE"),
        (1.2, 2, "better"),
        (1.0, 30, "not resolved"),
    ],
)
def test_a_row_is_judged_by_the_interval_of_the_median_ratio(
    gain: float, spread: float, verdict: str
) -> None:
    base, head = pairs(gain, spread)
    found = estimate(gains(base, head, "higher"))
    assert found.low <= found.ratio <= found.high
    assert found.verdict == verdict
    assert found == estimate(gains(base, head, "higher")), "the same numbers, the same interval"


def test_a_number_above_one_is_better_whatever_is_measured() -> None:
    assert gains([10.0, 20.0], [20.0, 20.0], "higher") == [2.0, 1.0]
    assert gains([10.0, 20.0], [20.0, 20.0], "lower") == [0.5, 1.0]


@pytest.mark.parametrize(
    ("base", "head", "verdict"),
    [
        ([5000.0] * 3, [5090.0] * 3, "not worse"),
        ([5000.0] * 3, [5110.0] * 3, "WORSE"),
        ([5110.0] * 3, [5000.0] * 3, "better"),
    ],
)
def test_two_percent_more_instructions_are_allowed(
    base: list[float], head: list[float], verdict: str
) -> None:
    found = estimate(gains(base, head, "lower"))
    assert instructions.verdict(found, estimate([0.99, 1.0, 1.01])) == verdict
    assert instructions.verdict(found, estimate([0.97, 1.0, 1.01])) == "not resolved"


def test_the_instructions_of_a_process_are_its_total(tmp_path: Path) -> None:
    file = tmp_path / "count.1"
    file.write_text("version: 1\nevents: Ir\nfn=(1) main\n1 7\ntotals: 4294967296\n")
    assert instructions.total(file) == 4294967296
    file.write_text("version: 1\n")
    with pytest.raises(OSError, match=r"count\.1 has no totals"):
        instructions.total(file)


@pytest.mark.parametrize("row", PROGRAMS)
def test_the_programs_that_are_counted_run(row: str) -> None:
    command = [sys.executable, counted_tasks.__file__, row, "20", sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    client, worker = map(int, done.stdout.split())
    assert client != worker
    assert row in ROWS


def test_a_valgrind_that_cannot_run_the_engine_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    build = Build("0", tmp_path, tmp_path)
    old = tmp_path / "valgrind"
    old.write_text("#!/bin/sh\necho unhandled system call 434 >&2\nexit 1\n")
    old.chmod(0o700)
    for path, said in (
        (tmp_path, "(?s)such as 3.24.*unhandled system call 434"),
        (tmp_path / "nothing", "there is no valgrind"),
    ):
        monkeypatch.setenv("PATH", str(path))
        with pytest.raises(OSError, match=said):
            instructions.Counter().check(build)
        assert list(comparing.counted(["submit"], build, build)) == []
        assert "instructions are not counted" in capsys.readouterr().err


@pytest.mark.parametrize("key", ["submit", "call", "map", "chain", "memory", "first"])
def test_a_row_is_compared_without_peers(key: str) -> None:
    assert [block.name for block in comparing.blocks_of(ROWS[key])] == ["alone"]


@pytest.mark.parametrize("key", ROWS)
def test_each_row_has_something_to_compare(key: str) -> None:
    for block in comparing.blocks_of(ROWS[key]):
        comparison = comparing.Comparison(ROWS[key], block, None, None)  # type: ignore[arg-type]
        assert comparison.better, block.name


def test_an_unknown_commit_and_an_unknown_row_are_named() -> None:
    root = Path(comparing.__file__).parents[2]
    for arguments, said in (
        ("no-such-commit submit", "no-such-commit"),
        ("HEAD nothing", "nothing"),
    ):
        command = [sys.executable, "-m", "benches.compare", *arguments.split()]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True)
        assert (done.returncode, said in done.stderr.splitlines()[-1]) == (2, True)
