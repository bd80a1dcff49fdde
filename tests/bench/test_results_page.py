"""The results in the documentation can be read: all that is folded is a table, and all pictures are there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from gristmill.bench.figures.page import PAGE

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"


def rendered() -> str:
    """The page as the documentation has it."""
    markdown = pytest.importorskip("markdown")
    yaml = pytest.importorskip("yaml")
    chosen: list[Any] = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["markdown_extensions"]
    names = [next(iter(one)) if isinstance(one, dict) else one for one in chosen]
    page: str = markdown.markdown((RESULTS / PAGE).read_text(), extensions=names)
    return page


def test_measurements_of_each_picture_are_folded_away_as_a_table() -> None:
    page = rendered()
    pictures = re.findall(r'<img[^>]* src="([^"]+)"', page)
    folded = re.findall(r"<details>\s*<summary>Measurements, [^<]+</summary>\s*<table>", page)
    assert len(folded) == len(pictures) == page.count("<details")
    assert "|---" not in page
    assert all((RESULTS / name).stat().st_size for name in pictures)
