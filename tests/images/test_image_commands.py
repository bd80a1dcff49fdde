"""``gristmill env pack``, ``open``, ``list`` and ``drop``, and the lines of ``gristmill doctor`` about images."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gristmill import _filesystem
from gristmill._doctor import images
from gristmill._doctor.findings import Finding
from gristmill._images import probes, storage

from packing import ANSWER, run

Result = subprocess.CompletedProcess[str]


@pytest.fixture
def variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets a cache and a disk of the test's own."""
    (tmp_path / "local").mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv(storage.LOCAL_VARIABLE, str(tmp_path / "local"))


def env(*words: object) -> Result:
    command = [sys.executable, "-m", "gristmill._cli", "env", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True)


def test_an_environment_is_packed_opened_listed_and_dropped(
    environment: Path, tmp_path: Path, variables: None
) -> None:
    packed = env("pack", environment, "-o", tmp_path / "grain.image", "--add", f"notes={__file__}")
    assert packed.stdout == f"{tmp_path}/grain.image\n", packed.stderr
    assert "note:" in packed.stderr or storage.is_shared(str(environment))
    digest = packed.stderr.splitlines()[0].rpartition(" ")[2]

    opened = env("open", tmp_path / "grain.image", "--digest", digest)
    folder = Path(opened.stdout.strip())
    assert run(folder / "bin/grain") == ANSWER
    assert (folder / "notes").is_file()
    assert opened.stderr == f"opened by unpack; remove it with: gristmill env drop {digest[:16]}\n"

    lines = [line.split() for line in env("list").stdout.splitlines()]
    assert [(line[0], line[1], line[4]) for line in lines] == [
        ("packed", digest[:16], "tar"),
        ("open", digest[:16], "unpack"),
    ]
    assert env("drop", digest[:8]).returncode == 0
    assert env("list").stdout == ""
    assert not folder.exists()


def test_drop_asks_which_and_knows_what_is_used(environment: Path, variables: None) -> None:
    path = env("pack", environment).stdout.strip()
    assert env("open", path).returncode == 0
    for words, text in (((), "name an image"), (("zz",), "zz is not an image")):
        refused = env("drop", *words)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert text in refused.stderr
    from gristmill._images.opening import open_image

    with open_image(path):
        used = env("drop", "--all")
        assert used.returncode == 1
        assert "is used by a process of this node and stays open" in used.stderr
    assert env("drop", "--all").returncode == 0
    assert env("list").stdout == ""


def test_what_cannot_be_packed_or_opened_is_a_line_and_a_status(
    tmp_path: Path, variables: None
) -> None:
    refused = env("pack", tmp_path)
    assert refused.returncode == 1
    assert refused.stderr == (
        f"gristmill env: {tmp_path} cannot be packed: it is not a Python environment, because it has no bin/python\n"
    )
    (tmp_path / "text").write_text("x")
    refused = env("open", tmp_path / "text", "--digest", "0" * 64)
    assert refused.stderr == f"gristmill env: {tmp_path}/text is not an image\n"
    refused = env("open", tmp_path / "text", "--digest", "../secret")
    assert refused.stderr.startswith("gristmill env: '../secret' is not a digest")


def of(what: str) -> Finding:
    found = [*images.disk(), *images.ways()]
    return next(finding for finding in found if finding.what == what)


def test_the_doctor_says_how_images_are_opened_and_why_not_better(
    variables: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (of("tar images").grade, of("tar images").text) == (
        "ok",
        "unpacked to the node's own disk",
    )
    monkeypatch.setattr(
        probes, "fault_of", lambda way, _: "must be superuser" if way == "loop" else None
    )
    finding = of("squashfs images")
    assert finding.grade == "note"
    assert finding.text.endswith("not by loop: must be superuser")
    monkeypatch.setattr(probes, "fault_of", lambda *_: "no")
    assert of("squashfs images").text.startswith("cannot be opened: not by loop: no")


def test_the_doctor_says_where_images_go_and_why_nowhere(
    tmp_path: Path, variables: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (
        str(tmp_path / "local" / f"gristmill-{os.getuid()}" / "images") in of("image folder").text
    )
    monkeypatch.setattr(_filesystem, "of", lambda _: _filesystem.named("tmpfs"))
    assert of("image folder").grade == "note"
    assert "this folder is in memory" in of("image folder").text
    monkeypatch.setattr(_filesystem, "of", lambda _: _filesystem.named("lustre"))
    assert "shared with other nodes" in of("image folder").text
    assert list(images.ways()) == []
