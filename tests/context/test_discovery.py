"""The requirements of a context's functions and of its setup are discovered together."""

from __future__ import annotations

import json
from pathlib import Path

from gristmill._context import discovery
from gristmill._context.imports import REQUIRED


def set_up(path: str) -> dict[str, object]:
    """Loads what calls use. It is a function of a module, so it is sent by name."""
    import zipfile

    return {"archive": zipfile.ZipFile(path)}


def test_a_function_and_its_setup_need_their_modules_as_files_and_all_that_these_import() -> None:
    found = discovery.of_functions([set_up, lambda: Path])
    assert [Path(file.path) for file in found.files] == [Path(__file__)]
    assert [file.how for file in found.files] == ["as a file"]
    assert found.missing == []
    needs = {module.name: module for module in found.modules}
    assert needs["zipfile"].kind == "standard library"
    assert needs["zipfile"].why == ["line 14 of test_discovery.py, in set_up"]
    assert needs["pathlib"].need == REQUIRED
    (by_value,) = found.by_value
    assert by_value.endswith("<lambda>")


def test_a_function_takes_the_distributions_along_that_it_uses_and_all_that_they_require() -> None:
    import pytest

    found = discovery.of_functions([lambda: pytest.raises])
    assert found.distributions["pytest"].is_imported
    assert found.distributions["pluggy"].required_by == ["pytest"]
    version = found.distributions["pytest"].distribution.version
    assert version == pytest.__version__
    count, size = found.totals
    assert count > 50
    assert size > 100_000
    assert json.loads(json.dumps(found.to_json()))["size_bytes"] == size


def test_nothing_is_needed_by_a_function_that_uses_nothing() -> None:
    found = discovery.of_functions([lambda x: x + 1])
    assert (found.modules, found.distributions, found.files) == ([], {}, [])
    assert found.totals == (0, 0)
