"""The kind of this environment, and whether other nodes see it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gristmill import _filesystem
from gristmill._context import environment

from installations import write


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        ({"pyvenv.cfg": "home = /usr/bin\nversion = 3.12.1\n"}, "venv"),
        ({"pyvenv.cfg": "home = /usr/bin\nuv = 0.5.1\nversion_info = 3.12.1\n"}, "uv venv"),
        ({"pyvenv.cfg": "home = /usr/bin\nvirtualenv = 20.1\n"}, "virtualenv"),
        ({"conda-meta/history": "", "bin/python": ""}, "conda"),
        ({"bin/python": ""}, "system"),
    ],
)
def test_the_kind_of_an_environment_is_told_by_what_made_it(
    tmp_path: Path, files: dict[str, str], kind: str
) -> None:
    write(tmp_path, files)
    assert environment.kind_of(str(tmp_path)) == kind


def test_this_environment_is_described() -> None:
    here = environment.here()
    assert here.prefix == sys.prefix
    assert here.interpreter.version == ".".join(map(str, sys.version_info[:3]))
    assert json.loads(json.dumps(here.to_json()))["interpreter"]["abi"] == here.interpreter.abi
    assert (here.kind == "system") is (sys.prefix == sys.base_prefix)


@pytest.mark.skipif(shutil.which("uv") is None, reason="uv is not on this machine")
def test_an_environment_that_uv_made_is_one(tmp_path: Path) -> None:
    made = tmp_path / "made"
    command = ["uv", "venv", "--offline", "--python", sys.executable, str(made)]
    subprocess.run(command, check=True, capture_output=True)
    assert environment.kind_of(str(made)) == "uv venv"


@pytest.mark.parametrize(
    ("name", "is_shared", "may_be_shared"),
    [
        ("nfs4", True, True),
        ("lustre", True, True),
        ("virtiofs", True, True),
        ("fuse.sshfs", True, True),
        ("ext4", False, False),
        ("tmpfs", False, False),
        ("fuse.squashfuse", False, False),
        ("fuse.another", None, True),
        ("fuse", None, True),
        ("another", None, False),
    ],
)
def test_a_file_system_is_shared_or_local_by_its_name(
    name: str, is_shared: bool | None, may_be_shared: bool
) -> None:
    found = _filesystem.named(name)
    assert (found.is_shared, found.may_be_shared) == (is_shared, may_be_shared)


MOUNTS = r"""
20 1 8:1 / / rw - ext4 /dev/sda1 rw
30 20 0:50 / /home rw - fuse.sshfs me@login: rw
31 30 0:51 / /home/me/an\040image rw - fuse.squashfuse /home/me/image.sqfs ro
32 20 0:52 / /data rw - fuse.somebodys x rw
33 20 0:53 / /disk rw - fuseblk /dev/sdb1 rw
"""


@pytest.mark.parametrize(
    ("folder", "is_shared"),
    [
        ("/home/me/env", True),
        ("/home/me/an image/env", False),
        ("/home/me/an images", True),
        ("/data", None),
        ("/disk/env", False),
    ],
)
def test_what_lies_behind_fuse_is_told_by_the_mount(
    monkeypatch: pytest.MonkeyPatch, folder: str, is_shared: bool | None
) -> None:
    monkeypatch.setattr(_filesystem, "_mounts", lambda: MOUNTS)
    found = _filesystem.of(folder)
    assert found.name.startswith("fuse")
    assert found.is_shared is is_shared


def test_folders_of_this_machine_have_a_file_system(tmp_path: Path) -> None:
    here = _filesystem.of(str(tmp_path))
    assert here.name not in ("unknown", "")
    assert _filesystem.of(str(tmp_path / "gone")) == here, "that is where it would be made"
    assert _filesystem.of("/proc/self").name == "proc"


def test_without_mountinfo_the_file_system_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_filesystem, "_mounts", lambda: "")
    assert _filesystem.of("/") == _filesystem.FileSystem("unknown", None)
