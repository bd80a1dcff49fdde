"""The pure parts of the rows of contexts: values computed from measured times, groups of rows, and charts without
points.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from benches.contexts import charts, environment, levels, slow_files
from benches.rows import GROUPS, ROWS
from benches.rows.context_inference import savings


def test_the_saving_is_the_share_of_the_slower_time() -> None:
    assert levels.saving(faster=1.0, slower=4.0) == pytest.approx(75)
    assert levels.expected_saving(setup=3.0, compute=1.0) == pytest.approx(75)
    assert levels.deviation(measured=69, expected=75) == pytest.approx(8)
    assert levels.deviation(measured=81, expected=75) == pytest.approx(8)


def test_calls_that_cost_setup_and_compute_save_what_is_expected() -> None:
    found = savings(
        {
            "setup": [3.0, 3.0],
            "compute": [1.0, 2.0],
            "L1": [4.0, 5.0],
            "L2": [4.0, 8.0],
            "L3": [1.0, 2.0],
        }
    )
    assert found["expected"] == pytest.approx([75, 60])
    assert found["L1 saving"] == pytest.approx([75, 60])
    assert found["L1 off"] == pytest.approx([0])
    # From the medians: 1.5 of 6 s are left, where 1.5 of 4.5 s should be.
    assert found["L2 off"] == pytest.approx([100 * (75 / (200 / 3) - 1)])


def test_a_group_names_rows_that_exist() -> None:
    assert GROUPS["contexts"]
    assert all(key in ROWS for keys in GROUPS.values() for key in keys)
    assert not set(GROUPS) & set(ROWS)


def test_nothing_is_drawn_without_points(tmp_path: Path) -> None:
    path = tmp_path / "chart.svg"
    assert not charts.drawn([charts.Panel("workers", "seconds", {})], path)
    assert not path.exists()


def test_the_slow_file_system_shows_what_is_in_its_folder(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"0123456789")
    (tmp_path / "link").symlink_to("one")
    slow = slow_files.Slow(str(tmp_path))
    assert sorted(slow.readdir("/", 0)) == [".", "..", "link", "one"]
    assert slow.readlink("/link") == "one"
    found, real = slow.getattr("/one"), os.lstat(tmp_path / "one")
    assert (found["st_size"], found["st_mtime"]) == (10, real.st_mtime_ns)
    handle = slow.open("/one", os.O_RDONLY)
    assert slow.read("/one", 4, 3, handle) == b"3456"
    slow.release("/one", handle)
    with pytest.raises(FileNotFoundError):
        slow.getattr("/two")


def test_forgetting_files_leaves_them_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "one"
    path.write_bytes(b"kept")
    environment.forget([*environment.files(tmp_path), str(tmp_path / "missing")])
    assert path.read_bytes() == b"kept"
