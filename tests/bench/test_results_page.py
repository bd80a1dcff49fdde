"""The results page of the documentation is readable: each folded part is a table, and all pictures exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from gristmill_bench.figures.page import PAGE

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"


#: Most bytes of the results that the repository keeps.
BYTES_MAX = 1_000_000


def rendered() -> str:
    """Returns the page as the documentation renders it."""
    markdown = pytest.importorskip("markdown")
    yaml = pytest.importorskip("yaml")
    chosen: list[Any] = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["markdown_extensions"]
    names = [next(iter(one)) if isinstance(one, dict) else one for one in chosen]
    page: str = markdown.markdown((RESULTS / PAGE).read_text(), extensions=names)
    return page


def test_results_in_the_repository_are_small_and_shown() -> None:
    files = [path for path in RESULTS.iterdir() if path.is_file()]
    assert sum(path.stat().st_size for path in files) < BYTES_MAX
    page = (RESULTS / PAGE).read_text()
    hidden = [path.name for path in files if path.suffix == ".svg" and path.name not in page]
    assert not hidden


def test_measurements_of_each_picture_are_folded_away_as_a_table() -> None:
    page = rendered()
    pictures = re.findall(r'<img[^>]* src="([^"]+)"', page)
    folded = re.findall(r"<details>\s*<summary>Measurements, [^<]+</summary>\s*<table>", page)
    assert len(folded) == len(pictures) == page.count("<details")
    assert "|---" not in page
    assert all((RESULTS / name).stat().st_size for name in pictures)
