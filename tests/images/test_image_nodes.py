"""The folder of a node's open images, the choice of images to remove, and the images that the node can use."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gristmill import _filesystem
from gristmill._errors import ImageError
from gristmill._images import build, opening, storage
from gristmill._images.build import Image
from gristmill._images.node import Node
from gristmill._images.opening import Opened, open_image
from gristmill._images.recipe import Recipe

from packing import leftovers, make_environment


def images_of(tmp_path: Path, count: int) -> list[Image]:
    own = make_environment(tmp_path / "env")
    (tmp_path / "data").write_text("0")
    made = []
    for number in range(count):
        files = ((f"data-{number}", str(tmp_path / "data")),)
        made.append(
            build.build(Recipe(str(own), files=files), "tar", str(tmp_path / f"cache-{number}"))
        )
    return made


def test_the_one_used_longest_ago_goes_first_and_what_is_used_stays(
    node: Node, tmp_path: Path
) -> None:
    images = images_of(tmp_path, 4)

    def open_one(number: int, budget: int | None = None) -> Opened:
        return open_image(images[number].path, images[number].digest, node=node, budget=budget)

    held = open_one(0)
    for number in (1, 2, 1):
        open_one(number).close()
    sizes = {record.digest: record.size for record in node.records()}
    budget = sum(sizes.values())
    open_one(3, budget).close()
    there = {record.digest for record in node.records()}
    assert there == {images[number].digest for number in (0, 1, 3)}, (
        "2 was used longest ago of the unused ones"
    )
    open_one(2, 0).close()
    assert {record.digest for record in node.records()} == {images[0].digest, images[2].digest}
    held.close()


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ({"machine": "vax"}, "it is for vax"),
        (
            {"interpreter": "/nowhere/bin/python3.11"},
            "was made with the interpreter /nowhere/bin/python3.11",
        ),
    ],
)
def test_an_image_for_other_nodes_says_what_is_missing_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: dict[str, str], text: str
) -> None:
    right = {
        "python": "3.11.7",
        "machine": os.uname().machine,
        "interpreter": "",
        "environment": True,
    }
    (tmp_path / "gristmill-image.json").write_text(json.dumps({**right, **said}))
    with pytest.raises(ImageError, match=text):
        opening._check(str(tmp_path), "image", is_run=True)
    if "machine" not in said:
        opening._check(str(tmp_path), "image", is_run=False)
    (tmp_path / "gristmill-image.json").write_text("[]")
    with pytest.raises(ImageError, match="is not an image of gristmill"):
        opening._check(str(tmp_path), "image", is_run=True)


def test_the_nodes_own_disk_is_found_and_a_shared_one_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    monkeypatch.delenv(storage.LOCAL_VARIABLE, raising=False)
    monkeypatch.setenv("SLURM_TMPDIR", str(first))
    monkeypatch.setenv("TMPDIR", str(second))
    assert storage.local_folder() == str(first / f"gristmill-{os.getuid()}" / "images")
    real, shared = _filesystem.of, _filesystem.named("nfs4")
    monkeypatch.setattr(_filesystem, "of", lambda path: shared if "first" in path else real(path))
    assert storage.local_folder().startswith(str(second))
    monkeypatch.setenv(storage.LOCAL_VARIABLE, str(first))
    with pytest.raises(
        ImageError, match=r"type nfs4, which is shared with other nodes: set GRISTMILL_LOCAL_DIR"
    ):
        storage.local_folder()


def test_a_folder_of_another_user_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(storage.LOCAL_VARIABLE, str(tmp_path))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / f"gristmill-{os.getuid()}").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ImageError, match="is not used for images"):
        storage.local_folder()


def test_file_systems_are_known_by_their_mounts(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, shared in (
        ("nfs4", True),
        ("lustre", True),
        ("fuse.sshfs", True),
        ("fuse.another", True),
        ("ext4", False),
        ("tmpfs", False),
    ):
        monkeypatch.setattr(_filesystem, "of", lambda _, kind=kind: _filesystem.named(kind))
        assert storage.is_shared("/") == storage.is_worth_an_image("/") == shared


def test_a_record_of_another_form_is_not_trusted(tar: Image, node: Node) -> None:
    Path(node.path("records", tar.digest)).write_text('{"digest": 1}')
    assert node.records() == []
    node.sweep()
    assert leftovers(node) == []
