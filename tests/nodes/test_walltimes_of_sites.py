"""The remaining time of nodes, as batch systems, providers and command lines give it."""

from __future__ import annotations

import argparse
import logging
import time
from types import SimpleNamespace

import pytest

from gristmill._nodes.walltime import of_provider, seconds, time_left

MINUTE, HOUR, DAY = 60, 3600, 86_400


@pytest.mark.parametrize(
    ("text", "slurm", "pbs"),
    [
        ("30", 30 * MINUTE, 30),
        ("2:30", 2 * MINUTE + 30, 2 * MINUTE + 30),
        ("01:02:03", HOUR + 2 * MINUTE + 3, HOUR + 2 * MINUTE + 3),
        ("100:00:00", 100 * HOUR, 100 * HOUR),
        ("2-12", 2 * DAY + 12 * HOUR, 2 * DAY + 12 * HOUR),
        ("1-0:30", DAY + 30 * MINUTE, DAY + 30 * MINUTE),
        ("1-00:00:00", DAY, DAY),
        ("UNLIMITED", None, None),
        ("0", None, None),
    ],
)
def test_walltimes_mean_what_the_batch_system_means(
    text: str, slurm: float | None, pbs: float | None
) -> None:
    assert of_provider(SimpleNamespace(label="slurm", walltime=text)) == slurm
    assert of_provider(SimpleNamespace(label="pbspro", walltime=text)) == pbs


def test_lsf_has_hours_and_minutes() -> None:
    assert of_provider(SimpleNamespace(label="LSF", walltime="1:30")) == 90 * MINUTE


@pytest.mark.parametrize("text", ["soon", "1:2:3:4", "-5", "1-", ":30", "1.5"])
def test_an_unreadable_walltime_is_reported(text: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "gristmill.nodes"):
        assert of_provider(SimpleNamespace(walltime=text)) is None
    assert repr(text) in caplog.text
    assert "will not drain" in caplog.text


def test_a_provider_without_a_walltime_lasts_for_ever(caplog: pytest.LogCaptureFixture) -> None:
    assert of_provider(SimpleNamespace()) is None
    assert not caplog.records


@pytest.mark.parametrize("text", ["-1", "nan", "inf", "1:00", "soon", ""])
def test_what_is_no_number_of_seconds_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="not a number of seconds"):
        seconds(text)


def test_a_job_of_slurm_ends_when_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (time_left(None), time_left(7.5)) == (None, 7.5)
    monkeypatch.setenv("SLURM_JOB_END_TIME", str(int(time.time()) + 1000))
    left = time_left(None)
    assert left is not None
    assert 0 < left <= 1000
    assert time_left(7.5) == 7.5
    assert time_left(1e6) == pytest.approx(left, abs=100)


def test_a_job_that_a_program_has_outlived_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_END_TIME", "1000000000")
    assert (time_left(None), time_left(7.5)) == (None, 7.5)
