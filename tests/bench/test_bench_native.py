"""The rows of native functions record what their lines read."""

from __future__ import annotations

import shutil

import pytest
from benches.model import ALONE, Row, Settings
from benches.rows import native, native_parts


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no cc")
@pytest.mark.parametrize("row", [native.NativeRow(), native_parts.NativePartsRow()])
def test_a_row_records_the_series_of_its_lines(row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "ITEMS", 100)
    monkeypatch.setattr(native_parts, "CALLS", 20)
    monkeypatch.setattr(Settings, "samples", 3)
    series = row.measure(ALONE, Settings(quick=True)).series
    for line in row.lines():
        for key in filter(None, (line.ours, line.reference)):
            assert len(series[key]) == 3
            assert key.endswith("above") or min(series[key]) > 0
