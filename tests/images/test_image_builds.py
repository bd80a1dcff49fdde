"""An image is built once for its inputs. A build that ends early, in any way, leaves no partial image."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gristmill._errors import ImageError
from gristmill._images import build, recipe
from gristmill._images.recipe import Recipe

from packing import make_environment, packages, tree


def test_an_environment_that_has_not_changed_is_only_looked_at(
    environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = str(tmp_path / "cache")
    built = build.build(Recipe(str(environment)), "tar", cache)
    monkeypatch.setattr(recipe, "gather", lambda *_: pytest.fail("it was built again"))
    assert build.build(Recipe(str(environment)), "tar", cache) == built
    assert build.built(cache) == [built]


def test_an_environment_that_has_changed_is_built_again_and_the_oldest_image_goes(
    tmp_path: Path,
) -> None:
    own, cache = make_environment(tmp_path / "env"), str(tmp_path / "cache")
    digests = []
    for number in range(3):
        (packages(own) / "grain/data.txt").write_text("x" * (number + 10))
        digests.append(build.build(Recipe(str(own)), "tar", cache).digest)
    assert len(set(digests)) == 3
    assert [made.digest for made in build.built(cache)] == [digests[2], digests[1]]
    assert len([name for name in os.listdir(cache) if name.endswith(".tar.zst")]) == 2
    for made in build.built(cache):
        assert build.forget(made.digest, cache)
    assert os.listdir(cache) == [], "nothing is left of them"


def test_an_image_that_is_lost_or_cut_is_built_again(environment: Path, tmp_path: Path) -> None:
    cache = str(tmp_path / "cache")
    built = build.build(Recipe(str(environment)), "tar", cache)
    os.truncate(built.path, 100)
    assert build.build(Recipe(str(environment)), "tar", cache) == built
    os.unlink(built.path)
    assert build.build(Recipe(str(environment)), "tar", cache) == built
    assert os.path.getsize(built.path) == built.size


#: A program that builds an image and prints its file.
_BUILD = """
import os, sys
from gristmill._images import build
from gristmill._images.recipe import Recipe
made = build.build(Recipe(sys.argv[1]), "tar", sys.argv[2])
print(made.digest, os.stat(made.path).st_ino)
"""


def test_processes_that_want_one_image_at_once_build_it_once(
    environment: Path, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", _BUILD, environment, tmp_path / "cache"]
    runs = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    said = {run.communicate()[0] for run in runs}
    assert [run.returncode for run in runs] == [0] * 4
    assert len(said) == 1, said


#: A program that begins to build, reports it, and never ends.
_HANG = """
import sys, time
from gristmill._images import build, recipe
gather = recipe.gather
def hang(seen, folder):
    open(folder + "/bytecode-0", "w").write("half")
    print("begun", flush=True)
    sys.stdin.read()
recipe.gather = hang
build.build(recipe.Recipe(sys.argv[1]), "tar", sys.argv[2])
"""


def test_a_builder_that_is_killed_is_succeeded_by_the_next_one(
    environment: Path, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    command = [sys.executable, "-c", _HANG, environment, cache]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "begun\n"
        assert any(name.startswith("coming-") for name in os.listdir(cache))
        run.kill()
    own = make_environment(tmp_path / "other")
    build.build(Recipe(str(own)), "tar", str(cache))
    assert not any(name.startswith("coming-") for name in os.listdir(cache)), (
        "another build removes it"
    )
    build.build(Recipe(str(environment)), "tar", str(cache))


@pytest.mark.parametrize("form", ["tar", "squashfs"])
def test_a_full_disk_is_said_with_step_folder_and_sizes_and_nothing_is_left(
    environment: Path, tmp_path: Path, form: str, request: pytest.FixtureRequest
) -> None:
    if form == "squashfs":
        request.getfixturevalue("squashfs")
    small = tmp_path / "small"
    small.mkdir()
    (tmp_path / "large").write_bytes(os.urandom(3 << 20))
    code = (
        "import os, sys\n"
        "from gristmill._images import build\n"
        "from gristmill._images.recipe import Recipe\n"
        "files = (('large', sys.argv[3]),)\n"
        f"try: build.build(Recipe(sys.argv[1], files=files), '{form}', sys.argv[2])\n"
        "except build.ImageError as error: print(error)\n"
        "print(sorted(name for name in os.listdir(sys.argv[2]) if not name.endswith('.lock')))\n"
    )
    mount = 'mount -t tmpfs -o size=1m none "$0" && mkdir "$0/cache" && exec "$@"'
    command = [
        "unshare",
        "--mount",
        *(["--map-root-user"] if os.getuid() else []),
        "sh",
        "-c",
        mount,
        small,
    ]
    if subprocess.run([*command, "true"], capture_output=True).returncode:
        pytest.skip("no small disk can be mounted: it needs root, or namespaces of users")
    arguments = [sys.executable, "-c", code, environment, small / "cache", tmp_path / "large"]
    run = subprocess.run([*command, *arguments], capture_output=True, text=True)
    text, left = run.stdout.splitlines()
    assert text.startswith(
        f"no space left to build the image of {environment} in {small}/cache: up to 3."
    ), run.stderr
    assert text.endswith("MB are free")
    assert left == "[]"


def test_what_is_wrong_is_said_with_what_was_to_be_built(tmp_path: Path) -> None:
    own = make_environment(tmp_path / "env")
    seen = recipe.inspect(Recipe(str(own)))
    (packages(own) / "grain/data.txt").write_text("longer than before\n")
    work = tmp_path / "work"
    work.mkdir()
    with pytest.raises(
        ImageError, match=r"env cannot be built: .*data\.txt changed while it was packed"
    ):
        build._build(seen, "tar", str(tmp_path), str(work))
    with pytest.raises(ImageError, match="the format zip is unknown"):
        build.build(Recipe(str(own)), "zip", str(tmp_path / "cache"))


def test_squashfs_images_need_their_program(
    environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ImageError, match="mksquashfs is missing: install squashfs-tools"):
        build.build(Recipe(str(environment)), "squashfs", str(tmp_path / "cache"))


def test_squashfs_images_are_the_same_for_the_same_content(
    environment: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue("squashfs")
    one, other = (
        build.build(Recipe(str(environment)), "squashfs", str(tmp_path / name)) for name in "ab"
    )
    assert one.digest == other.digest


def test_a_cache_that_others_may_write_to_is_not_used(environment: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    cache.chmod(0o777)
    with pytest.raises(ImageError, match="may write to it"):
        build.build(Recipe(str(environment)), "tar", str(cache))
    assert tree(cache) == []
