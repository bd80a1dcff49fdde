"""Every public name, signature, attribute and class relation of Parsl exists here too, or is listed with the reason."""

from __future__ import annotations

import fnmatch
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gristmill.parsl._kernel.parsl_detection import is_parsl_installed

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "docs/reference/parsl-differences.toml"
PAGE = ROOT / "docs/reference/parsl-differences.md"
#: The version that is compared; requirements/peers.txt names it too.
VERSION = "2026.10.26"
#: Classes of other packages that programs name in ``isinstance``, ``except`` and ``with``.
FOREIGN_BASES = {"BaseException", "Enum", "Exception", "Executor", "Future", "IntEnum", "dict"}


def _installed_version() -> str | None:
    if not is_parsl_installed():
        return None
    from importlib.metadata import version

    return version("parsl")


needs_parsl = pytest.mark.skipif(
    _installed_version() != VERSION,
    reason=f"needs Parsl {VERSION}, not {_installed_version()}: ./dev parsl installs it",
)


def _surface(package: str) -> dict[str, Any]:
    command = [sys.executable, str(Path(__file__).parent / "surface.py"), package]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def differences(theirs: dict[str, Any], ours: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields each name of Parsl that is missing here or differs, and the difference."""
    bases = FOREIGN_BASES | {place.rpartition(".")[2] for place in theirs}
    for place, thing in theirs.items():
        if place not in ours:
            yield place, "missing"
        elif not thing.get("is_elsewhere"):
            for inside, what in _of_thing(thing, ours[place], bases):
                yield f"{place}{inside}", what


def _of_thing(
    theirs: dict[str, Any], ours: dict[str, Any], bases: set[str]
) -> Iterator[tuple[str, str]]:
    if theirs["kind"] != ours["kind"]:
        yield "", f"a {ours['kind']}, not a {theirs['kind']}"
        return
    for key in ("value", "class"):
        if theirs.get(key) != ours.get(key):
            yield "", f"{key} {ours.get(key)}, not {theirs.get(key)}"
    if (what := _of_parameters(theirs.get("parameters"), ours.get("parameters"))) is not None:
        yield "", what
    for base in theirs.get("bases", ()):
        if base in bases and base not in ours["bases"]:
            yield "", f"no {base}"
    for name, member in theirs.get("members", {}).items():
        if name not in ours["members"]:
            yield f".{name}", "missing"
        else:
            for _, what in _of_thing(member, ours["members"][name], bases):
                yield f".{name}", what


def _of_parameters(theirs: Any, ours: Any) -> str | None:
    """Describes the differences that a call written for their parameters meets in ours; additional optional parameters
    are no difference.
    """
    if theirs is None:
        return None
    if ours is None:
        return "parameters unknown"
    known = {name: (kind, default, place) for place, (name, kind, default) in enumerate(ours)}
    found = []
    for place, (name, kind, default) in enumerate(theirs):
        if name not in known:
            found.append(f"no parameter {name}")
            continue
        kind_here, default_here, place_here = known[name]
        if kind != kind_here:
            found.append(f"{name} is {kind_here}, not {kind}")
        if default != default_here:
            found.append(f"{name}={default_here}, not {default}")
        if kind.startswith("POSITIONAL") and place != place_here:
            found.append(f"{name} in another place")
    names = {name for name, _, _ in theirs}
    for name, kind, default in ours:
        if name not in names and not default and not kind.startswith("VAR"):
            found.append(f"{name} is required")
    return "; ".join(found) or None


def _listed() -> list[dict[str, str]]:
    listed: list[dict[str, str]] = tomllib.loads(TABLE.read_text())["difference"]
    return listed


def _is(entry: dict[str, str], place: str, what: str) -> bool:
    patterns = entry["at"].split()
    is_there = any(fnmatch.fnmatchcase(place, one) for one in patterns)
    return is_there and fnmatch.fnmatchcase(what, entry["what"])


@pytest.fixture(scope="module")
def found() -> list[tuple[str, str]]:
    """Returns all differences."""
    return list(differences(_surface("parsl"), _surface("gristmill.parsl")))


@needs_parsl
def test_every_difference_from_parsls_surface_is_listed_with_its_reason(
    found: list[tuple[str, str]],
) -> None:
    listed = _listed()
    unlisted = [one for one in found if not any(_is(entry, *one) for entry in listed)]
    assert unlisted == []


@needs_parsl
def test_every_listed_difference_is_there(found: list[tuple[str, str]]) -> None:
    gone = [
        (entry["what"], pattern)
        for entry in _listed()
        for pattern in entry["at"].split()
        if not any(_is({**entry, "at": pattern}, *one) for one in found)
    ]
    assert gone == []


def table() -> str:
    """Returns the list as the documentation page shows it."""
    rows = ["| what | where | why |", "|---|---|---|"]
    for entry in _listed():
        places = ", ".join(f"`{one}`" for one in entry["at"].split())
        what = entry["what"].replace("*", "...").replace("|", "\\|")
        rows.append(f"| {what} | {places} | {entry['why']} |")
    return "\n".join(rows)


def test_the_page_shows_the_list() -> None:
    page = PAGE.read_text()
    assert table() in page, "python tests/parsl/test_surface.py writes it"


def test_every_difference_says_why() -> None:
    for entry in _listed():
        assert set(entry) == {"at", "what", "why"}
        assert len(entry["why"].split()) > 3


def write_page() -> None:
    """Writes the list into the documentation page, between its two marks."""
    page = PAGE.read_text()
    before, _, rest = page.partition("<!-- surface -->\n")
    _, _, after = rest.partition("<!-- end of surface -->")
    PAGE.write_text(f"{before}<!-- surface -->\n{table()}\n<!-- end of surface -->{after}")


if __name__ == "__main__":
    write_page()
