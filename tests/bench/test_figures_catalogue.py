"""All figures: each can run what it names, ends within its time, and agrees with the list."""

from __future__ import annotations

from pathlib import Path

import pytest

from gristmill._cli import main
from gristmill_bench.figures.catalogue import FIGURES
from gristmill_bench.figures.figure import Sweep
from gristmill_bench.figures.session import Session

SWEEPS = [one for one in FIGURES.values() if isinstance(one, Sweep)]
#: The message where a requirement is not installed.
NOT_HERE = "not available here"


@pytest.mark.parametrize("figure", SWEEPS, ids=lambda one: one.key)
def test_what_a_figure_runs_is_valid_and_ends_in_its_time(figure: Sweep, tmp_path: Path) -> None:
    session, data = Session(tmp_path, 5), figure.empty()
    points = list(figure.points())
    ready = session.available(data, points)
    assert all(NOT_HERE in reason for reason in data.missing.values()), data.missing
    assert {one.series for one in points} == {one.series for one in ready} | data.missing.keys()
    assert all(session.benchmark(one.tables).run.timeout == 120 for one in ready)
    assert figure.run_count(session) == min(5, figure.repeats_max or 5) * len(ready)


def test_all_figures_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "reproduce", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(FIGURES)
    for line, figure in zip(lines, FIGURES.values(), strict=True):
        assert line.startswith(f"{figure.key} ")
        assert figure.source in line
        assert line.endswith(f"  {figure.title}")
