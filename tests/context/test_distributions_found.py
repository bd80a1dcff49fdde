"""Modules are resolved to the distributions that list their files, for each installer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gristmill._context.distributions import Distribution, Installed, normalized
from gristmill._context.imports import OPTIONAL, Import, Scan
from gristmill._context.modules import Finder
from gristmill._context.resolving import Resolver

from installations import conda_install, install, write


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return tmp_path / "site-packages"


def owners(module: str, path: list[Path], prefix: Path) -> list[Distribution]:
    """Returns the distributions that contain a module."""
    place = Finder([str(entry) for entry in path]).find(module)
    assert place is not None
    installed = Installed([str(entry) for entry in path], str(prefix))
    return [one for file in place.files for one in installed.owners(file)]


def test_the_name_of_a_distribution_may_be_another_than_its_module(site: Path) -> None:
    install(site, "Py-YAML", "6.0", {"yaml/__init__.py": "x = 1", "yaml/reader.py": "xy"})
    (found,) = {one.key: one for one in owners("yaml.reader", [site], site)}.values()
    assert (found.name, found.version, found.installer) == ("Py-YAML", "6.0", "pip")
    # The package, METADATA, INSTALLER and RECORD.
    assert found.totals[0] == 5
    assert ("x = 1", 5) in [(Path(file).read_text(), size) for file, size in found.files()]


def test_a_namespace_has_no_owner_and_its_parts_have_different_distributions(site: Path) -> None:
    install(site, "google-one", "1.0", {"google/one/__init__.py": ""})
    install(site, "google-two", "2.0", {"google/two/__init__.py": ""}, installer="uv")
    (found,) = owners("google.two", [site], site)
    assert (found.name, found.installer) == ("google-two", "uv")
    resolver = Resolver([str(site)])
    resolver.add(Scan([Import("google", "line 1", ("one", "three"))]))
    assert list(resolver.distributions) == ["google-one"]
    assert [one.name for one in resolver.missing] == ["google.three"]


def test_several_distributions_that_provide_one_file_are_all_found(site: Path) -> None:
    for name in ("opencv", "opencv-headless"):
        install(site, name, "4.0", {"cv2/__init__.py": ""})
    assert [one.name for one in owners("cv2", [site], site)] == ["opencv", "opencv-headless"]


def test_a_distribution_that_adds_to_the_package_of_another_is_found_with_it(site: Path) -> None:
    install(site, "whole", "1.0", {"whole/__init__.py": ""})
    install(site, "whole-plugin", "1.0", {"whole/plugin.py": ""})
    found = owners("whole.plugin", [site], site)
    assert [one.name for one in found] == ["whole", "whole-plugin"]


@pytest.mark.parametrize("file", ["single.py", "single.abi3.so"])
def test_modules_that_are_one_file_are_found(site: Path, file: str) -> None:
    install(site, "a-single", "1.0", {file: ""})
    assert [one.name for one in owners("single", [site], site)] == ["a-single"]


def test_old_installations_without_a_record_are_found_by_their_top_level(site: Path) -> None:
    write(site, {"old/__init__.py": "12345", "old/part.py": "", "oldie.py": "", "_old.abi3.so": ""})
    metadata = {
        "PKG-INFO": "Name: old-one\nVersion: 0.9\n",
        "top_level.txt": "old\noldie\n_old",
    }
    write(site / "old_one-0.9-py3.11.egg-info", metadata)
    for module in ("old.part", "oldie", "_old"):
        found = owners(module, [site], site)[0]
        assert (found.name, found.version, found.installer) == ("old-one", "0.9", None)
    assert (str(site / "old/__init__.py"), 5) in list(owners("old", [site], site)[0].files())


def test_editable_installations_are_found_where_their_code_is(site: Path, tmp_path: Path) -> None:
    source = tmp_path / "work" / "src"
    write(source, {"mine/__init__.py": "1234567", "mine/__pycache__/x.pyc": "no", "other.py": ""})
    told = {"url": f"file://{source.parent}", "dir_info": {"editable": True}}
    more = {"direct_url.json": json.dumps(told)}
    install(site, "mine", "0.1", {"_mine.pth": f"{source}\n"}, more=more)
    (found,) = owners("mine", [site, source], site)
    assert found.is_editable
    assert found.origin == f"file://{source.parent}"
    assert (str(source / "mine/__init__.py"), 7) in list(found.files())
    assert not [file for file, _ in found.files() if "pycache" in file or "other" in file]


def test_editable_installations_behind_a_finder_are_found(site: Path, tmp_path: Path) -> None:
    source = tmp_path / "work"
    write(source, {"mine/__init__.py": "", "mine/part.py": "", "scratch.py": ""})
    text = f"from x import y\nMAPPING: dict[str, str] = {{'mine': {str(source / 'mine')!r}}}\n"
    install(site, "mine", "0.1", {"__editable___mine_0_1_finder.py": text})
    found = owners("mine.part", [site, source], site)
    assert {one.name for one in found} == {"mine"}
    assert owners("scratch", [site, source], site) == []


def test_where_a_distribution_came_from_is_told_without_passwords(site: Path) -> None:
    told = {"url": "https://me:secret@example.org/x.git", "vcs_info": {"commit_id": "abc"}}
    install(site, "x", "1", {"x.py": ""}, more={"direct_url.json": json.dumps(told)})
    assert owners("x", [site], site)[0].origin == "https://example.org/x.git@abc"


def test_files_that_no_installer_wrote_have_no_owner(site: Path, tmp_path: Path) -> None:
    install(site, "loose-one", "1.0", {"other.py": ""})
    write(site, {"loose.py": ""})
    write(
        tmp_path, {"mine/__init__.py": "", "mine/part.py": "from . import __init__\nimport loose"}
    )
    resolver = Resolver([str(tmp_path), str(site)])
    resolver.add(Scan([Import("mine.part", "line 1"), Import("nowhere", "line 2", (), OPTIONAL)]))
    assert resolver.modules["mine.part"].kind == "local"
    assert [Path(file).name for file in resolver.files] == ["__init__.py", "part.py"]
    assert resolver.distributions == {}
    (missing,) = resolver.missing
    assert (missing.step, missing.name) == ("distribution", "loose")
    assert missing.why == "line 2 of mine/part.py"


def test_the_standard_library_belongs_to_no_distribution(tmp_path: Path) -> None:
    resolver = Resolver([str(tmp_path), *Finder().path])
    names = ["sys", "os.path", "json.decoder", "_thread", "importlib.util", "concurrent.futures"]
    resolver.add(Scan([Import(name, "line 1") for name in names]))
    assert {module.kind for module in resolver.modules.values()} == {"standard library"}
    assert resolver.files == {}


def test_a_module_without_a_file_in_a_package_is_noted(site: Path) -> None:
    install(site, "six", "1.0", {"six.py": ""})
    resolver = Resolver([str(site), *Finder().path])
    resolver.add(Scan([Import("six.moves.urllib", "line 1"), Import("os.path", "line 2")]))
    assert list(resolver.distributions) == ["six"]
    assert resolver.missing == []
    assert resolver.notes == [
        "line 1: no file of six.moves.urllib is found: six creates it at run time, or it does not exist"
    ]


def test_what_this_python_was_built_without_is_said_to_be_so() -> None:
    resolver = Resolver(Finder().path)
    resolver.add(Scan([Import("winreg.part", "line 1"), Import("winreg", "line 2", (), OPTIONAL)]))
    (missing,) = resolver.missing
    assert "this Python was built without it" in missing.advice


def test_a_module_of_the_user_is_found_before_one_of_the_same_name(tmp_path: Path) -> None:
    write(tmp_path, {"statistics.py": ""})
    resolver = Resolver([str(tmp_path), *Finder().path])
    resolver.add(Scan([Import("statistics", "line 1")]))
    assert resolver.modules["statistics"].kind == "local"


def test_what_conda_installed_is_known_by_condas_name(tmp_path: Path) -> None:
    site = tmp_path / "lib/python3.12/site-packages"
    install(site, "torch", "2.1", {"torch/__init__.py": ""}, installer="conda")
    inside = "lib/python3.12/site-packages/"
    files = {
        f"{inside}torch/__init__.py": "",
        f"{inside}torch-2.1.dist-info/METADATA": "Name: torch\n",
    }
    conda_install(tmp_path, "pytorch", "2.1", {**files, "lib/libtorch.so": "12345678"})
    (found,) = owners("torch", [site], tmp_path)
    assert (found.name, found.installer) == ("torch", "conda")
    assert found.conda is not None
    assert found.conda["name"] == "pytorch"
    assert (str(tmp_path / "lib/libtorch.so"), 8) in list(found.files())


def test_old_packages_of_conda_are_found_behind_a_link(tmp_path: Path) -> None:
    inside = "lib/python3.12/site-packages"
    metadata = f"{inside}/old-1.0-py3.12.egg-info"
    texts = {
        f"{metadata}/PKG-INFO": "Name: old\nVersion: 1.0\n",
        f"{metadata}/top_level.txt": "old\n",
    }
    conda_install(tmp_path / "real", "py-old", "1.0", {f"{inside}/old.py": "12", **texts})
    (tmp_path / "linked").symlink_to("real")
    site = tmp_path / "linked" / inside
    (found,) = owners("old", [site], tmp_path / "linked")
    assert (found.name, found.installer) == ("old", "conda")
    assert found.conda is not None
    assert found.conda["name"] == "py-old"
    installed = Installed([str(site)], str(tmp_path / "linked"))
    assert installed.get("old") is installed.get_conda("py-old")


def test_packages_that_only_conda_knows_are_found(tmp_path: Path) -> None:
    site = tmp_path / "lib/python3.12/site-packages"
    file = "lib/python3.12/site-packages/gdal.py"
    conda_install(
        tmp_path,
        "libgdal",
        "3.8",
        {file: "abc", "lib/python3.12/site-packages/__pycache__/gdal.pyc": "x"},
    )
    (found,) = owners("gdal", [site], tmp_path)
    assert (found.name, found.version, found.installer) == ("libgdal", "3.8", "conda")
    assert found.totals == (1, 3)


def test_damaged_metadata_hurts_no_other_distribution(site: Path, tmp_path: Path) -> None:
    install(site, "good", "1.0", {"good.py": ""})
    write(
        site,
        {"bad-1.0.dist-info/RECORD": '\0\xff,,,\n"unclosed', "bad-1.0.dist-info/METADATA": ":"},
    )
    write(tmp_path, {"conda-meta/bad-1-0.json": "{not json", "conda-meta/odd.json": "[]"})
    assert [one.name for one in owners("good", [site], tmp_path)] == ["good"]


def test_names_are_normalized() -> None:
    assert normalized("Foo.Bar__baz") == "foo-bar-baz"
