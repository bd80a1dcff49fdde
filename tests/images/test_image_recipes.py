"""The contents of an image work at another location, and unsupported contents are refused with a sentence."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

import pytest

from gristmill._errors import ImageError
from gristmill._images import build, recipe
from gristmill._images.node import Node
from gristmill._images.opening import open_image
from gristmill._images.recipe import Recipe

from packing import ANSWER, make_environment, packages, run, tree

pytestmark = pytest.mark.interpreter


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Returns an environment for one test."""
    return make_environment(tmp_path / "env")


@pytest.fixture
def opened(tmp_path: Path, node: Node):  # type: ignore[no-untyped-def]
    """Yields a function that packs a recipe's environment, moves the environment away, and returns the opened image's
    folder.
    """
    held = []

    def pack(made: Recipe, away: Path | None = None) -> Path:
        image = build.build(made, "tar", str(tmp_path / "cache"))
        if away is not None:
            away.rename(away.with_name("gone"))
        held.append(open_image(image.path, image.digest, node=node))
        return Path(held[-1].path)

    yield pack
    for one in held:
        one.close()


def test_an_environment_works_at_another_place(own: Path, opened) -> None:  # type: ignore[no-untyped-def]
    folder = opened(Recipe(str(own)), away=own)
    said = run(folder / "bin/python", "-c", "import grain, sys; print(grain.__file__, sys.prefix)")
    assert said == f"{packages(folder) / 'grain/__init__.py'} {folder}"
    assert run(folder / "bin/grain") == ANSWER
    assert (packages(folder) / "grain/data.txt").read_text() == "data\n"


def test_scripts_work_through_links_and_by_the_long_form_of_installers(
    own: Path, opened, tmp_path: Path
) -> None:  # type: ignore[no-untyped-def]
    long = own / "bin" / "long"
    text = f"#!/bin/sh\n'''exec' \"{own}/bin/python\" \"$0\" \"$@\"\n' '''\nimport grain; grain.main()\n"
    long.write_text(text)
    long.chmod(0o755)
    env = own / "bin" / "portable"
    env.write_text("#!/usr/bin/env python3\nprint('portable')\n")
    env.chmod(0o755)
    folder = opened(Recipe(str(own)), away=own)
    (tmp_path / "link").symlink_to(folder / "bin/long")
    assert run(tmp_path / "link") == ANSWER
    assert (folder / "bin/portable").read_text() == "#!/usr/bin/env python3\nprint('portable')\n"


def test_bytecode_is_in_it_and_not_checked_against_sources(own: Path, opened) -> None:  # type: ignore[no-untyped-def]
    broken = packages(own) / "grain" / "template.py"
    broken.write_text("this is {{ no }} Python\n")
    folder = opened(Recipe(str(own)))
    source = packages(folder) / "grain/__init__.py"
    source.chmod(0o644)
    source.write_text("raise SystemExit('the source was read')\n")
    os.utime(source, (0, 0))
    assert run(folder / "bin/python", "-c", "import grain; grain.main()") == ANSWER
    there = [name for name in tree(folder) if "template" in name]
    assert there == [str((packages(folder) / "grain/template.py").relative_to(folder))]


def test_what_an_interpreter_writes_while_it_runs_changes_nothing(own: Path) -> None:
    before = recipe.inspect(Recipe(str(own))).key
    run(own / "bin/python", "-c", "import grain")
    assert (packages(own) / "grain/__pycache__").is_dir()
    assert recipe.inspect(Recipe(str(own))).key == before


def test_sources_of_editable_installs_go_in(own: Path, opened, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    project = tmp_path / "project"
    (project / "chaff").mkdir(parents=True)
    (project / "chaff" / "__init__.py").write_text("where = __file__\n")
    (project / "build").mkdir()
    (project / "build" / "large").write_text("no part of it\n")
    (packages(own) / "chaff.pth").write_text(f"# editable\n{project}\n/nowhere/at/all\n")
    (packages(own) / "inner.pth").write_text(f"{packages(own)}/grain\n")
    folder = opened(Recipe(str(own)), away=project)
    where = run(folder / "bin/python", "-c", "import chaff; print(chaff.where)")
    assert os.path.realpath(where) == str(folder / "sources/0/chaff/__init__.py")
    assert not (folder / "sources/0/build").exists()
    assert (packages(folder) / "inner.pth").read_text() == "grain\n"


def test_editable_installs_through_a_finder_are_refused_by_name(own: Path) -> None:
    path = packages(own) / "__editable__.chaff-1.0.pth"
    path.write_text(
        "import __editable___chaff_1_0_finder; __editable___chaff_1_0_finder.install()\n"
    )
    with pytest.raises(ImageError, match=r"chaff-1\.0 is installed editable through a finder"):
        recipe.inspect(Recipe(str(own)))


def test_packages_of_the_system_are_refused(own: Path) -> None:
    path = own / "pyvenv.cfg"
    path.write_text(path.read_text().replace("packages = false", "packages = true"))
    with pytest.raises(ImageError, match="it also uses packages of the system"):
        recipe.inspect(Recipe(str(own)))


def test_links_are_kept_inside_and_followed_outside(own: Path, opened, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "cached").write_text("of a cache\n")
    (packages(own) / "outside.txt").symlink_to(tmp_path / "cached")
    (packages(own) / "inside").symlink_to(packages(own) / "grain")
    folder = opened(Recipe(str(own)), away=own)
    outside = packages(folder) / "outside.txt"
    assert (outside.is_symlink(), outside.read_text()) == (False, "of a cache\n")
    assert os.readlink(packages(folder) / "inside") == "grain"


@pytest.mark.parametrize("kind", ["folder", "nothing", "pipe"])
def test_what_cannot_go_in_is_named(own: Path, tmp_path: Path, kind: str) -> None:
    path = packages(own) / "strange"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(tmp_path if kind == "folder" else tmp_path / "nothing")
    with pytest.raises(
        ImageError, match=r"site-packages/strange cannot be packed: it (is a link to|is neither)"
    ):
        recipe.inspect(Recipe(str(own)))


def test_no_environment_and_the_system_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="it is not a Python environment"):
        recipe.inspect(Recipe(str(tmp_path)))
    with pytest.raises(ImageError, match="it is the interpreter of the system"):
        recipe.inspect(Recipe("/usr"))


def test_files_of_the_user_go_in_by_their_names(own: Path, opened, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "data" / "deep").mkdir(parents=True)
    (tmp_path / "data" / "deep" / "one").write_text("1")
    files = (("share/data", str(tmp_path / "data")), ("settings", str(own / "pyvenv.cfg")))
    folder = opened(Recipe(str(own), files=files))
    assert (folder / "share/data/deep/one").read_text() == "1"
    assert (folder / "settings").is_file()
    with pytest.raises(ImageError, match="that path is not inside the image"):
        recipe.inspect(Recipe(str(own), files=(("../x", str(tmp_path)),)))


def test_some_distributions_can_go_in_alone(opened) -> None:  # type: ignore[no-untyped-def]
    folder = opened(Recipe("", distributions=("cloudpickle",)))
    code = "import cloudpickle; print(cloudpickle.__file__)"
    said = run(sys.executable, "-S", "-c", code, PYTHONPATH=str(folder / "site-packages"))
    assert said == str(folder / "site-packages/cloudpickle/__init__.py")
    with pytest.raises(ImageError, match="no-such-thing cannot be packed: it is not installed"):
        recipe.inspect(Recipe("", distributions=("no-such-thing",)))


def test_with_its_interpreter_an_environment_needs_nothing_of_the_node(own: Path, opened) -> None:  # type: ignore[no-untyped-def]
    if {"deb_system", "posix_local", "rpm_prefix"} & set(sysconfig.get_scheme_names()):
        pytest.skip("this interpreter is its distribution's own")
    folder = opened(Recipe(str(own), with_python=True), away=own)
    code = "import grain, json, sys, os; print(sys.prefix, sys.base_prefix, json.__file__)"
    library = packages(folder).parent
    assert (
        run(folder / "bin/python", "-c", code)
        == f"{folder} {folder} {library / 'json/__init__.py'}"
    )
    assert run(folder / "bin/grain") == ANSWER
    code = "import grain; print([line.split()[-1] for line in open('/proc/self/maps') if 'python' in line])"
    assert sys.base_prefix not in run(folder / "bin/python", "-c", code)


def test_the_same_content_gives_the_same_digest(own: Path, tmp_path: Path) -> None:
    one = build.build(Recipe(str(own)), "tar", str(tmp_path / "one"))
    os.utime(packages(own) / "grain/data.txt", (1, 1))
    other = build.build(Recipe(str(own)), "tar", str(tmp_path / "other"))
    assert one.digest == other.digest
    assert Path(one.path).read_bytes() == Path(other.path).read_bytes()
