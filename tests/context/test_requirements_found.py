"""The complete set of distributions is found, and problems with it are reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from gristmill._context.distributions import Installed
from gristmill._context.requirements import closure

from installations import conda_install, install, write


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return tmp_path / "site-packages"


def whole_of(site: Path, *names: str) -> tuple[dict[str, list[str]], list[str]]:
    """Returns each required distribution with its dependants, and the notes."""
    installed = Installed([str(site)], str(site.parent))
    first = [one for one in map(installed.get, names) if one is not None]
    needed, notes = closure(installed, first)
    return {key: one.required_by for key, one in needed.items()}, notes


def test_what_is_required_is_required_with_all_that_it_requires(site: Path) -> None:
    install(site, "a", "1", {}, requires=["B_b>=1", "c"])
    install(site, "b-b", "1.5", {}, requires=["c", "a"])
    install(site, "c", "1", {})
    install(site, "d", "1", {})
    assert whole_of(site, "a") == ({"a": ["b-b"], "b-b": ["a"], "c": ["a", "b-b"]}, [])


def test_markers_and_extras_decide(site: Path) -> None:
    requires = [
        'old; python_version < "3"',
        'new; python_version >= "3"',
        'plot; extra == "plots"',
        'deep; extra == "plots" and python_version >= "3"',
    ]
    install(site, "b", "1", {}, requires=requires)
    for name in ("old", "new", "plot", "deep"):
        install(site, name, "1", {})
    install(site, "a", "1", {}, requires=["b"])
    install(site, "c", "1", {}, requires=["b[plots]"])
    assert set(whole_of(site, "a")[0]) == {"a", "b", "new"}
    # The extra is found too where the distribution was seen without it before.
    assert set(whole_of(site, "a", "c")[0]) == {"a", "b", "c", "new", "plot", "deep"}


def test_what_is_not_as_required_is_noted(site: Path) -> None:
    install(site, "a", "1", {}, requires=["gone>=2", "b>=2", "!!", "c>=1.0"])
    install(site, "b", "1.9", {})
    install(site, "c", "1.0rc1.post1.dev3", {})
    needed, notes = whole_of(site, "a")
    assert set(needed) == {"a", "b", "c"}
    assert notes[:2] == [
        "a requires gone>=2, which is not installed",
        "a requires b>=2, and 1.9 is installed",
    ]
    assert "'!!', which is not a valid requirement" in notes[2]


def test_requirements_of_old_installations_are_read(site: Path) -> None:
    metadata = site / "a-1-py3.11.egg-info"
    write(metadata, {"PKG-INFO": "Name: a\nVersion: 1\n", "requires.txt": "b\n\n[more]\nc\n"})
    install(site, "b", "1", {})
    install(site, "c", "1", {})
    assert set(whole_of(site, "a")[0]) == {"a", "b"}


def test_packages_of_conda_require_what_conda_says(tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    inside = {"site-packages/numpy-2.0.dist-info/METADATA": "Name: numpy\nVersion: 2.0\n"}
    install(site, "numpy", "2.0", {}, installer="conda")
    depends = ["python >=3.11", "libblas >=3.9,<4.0a0", "__glibc >=2.17", "gone 1.*"]
    conda_install(tmp_path, "numpy", "2.0", inside, depends)
    conda_install(tmp_path, "libblas", "3.9", {"lib/libblas.so": "123"}, ["libgfortran"])
    conda_install(tmp_path, "libgfortran", "14", {"lib/libgfortran.so": ""})
    needed, notes = whole_of(site, "numpy")
    assert needed == {"numpy": [], "libblas": ["numpy"], "libgfortran": ["libblas"]}
    assert notes == ["numpy requires gone 1.*, which is not installed"]
