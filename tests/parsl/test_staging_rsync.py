"""Files of another host, copied within the tasks that read and write them. A folder stands for the host."""

from __future__ import annotations

import os
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from gristmill.parsl import File
from gristmill.parsl._kernel.staging import rsync
from gristmill.parsl.data_provider.rsync import RSyncStaging
from gristmill.parsl.data_provider.staging import StagingError

from staging_kernel import StandInKernel, kernel_of

#: A stand-in for rsync. Names come behind ``--``; a part before a colon is the host if no slash precedes the colon.
RSYNC = """\
#!/usr/bin/env python3
import shutil, sys
source, target = sys.argv[sys.argv.index("--") + 1:]
with open({log!r}, "a") as log:
    print(source, target, sep=" -> ", file=log)
def path_of(name):
    host, colon, path = name.partition(":")
    return path if colon and "/" not in host else name
try:
    shutil.copyfile(path_of(source), path_of(target))
except OSError as error:
    sys.exit(f"rsync: {{error.strerror}}")
"""


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> StandInKernel:
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "rsync"
    program.write_text(RSYNC.format(log=str(tmp_path / "log")))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    return kernel_of(monkeypatch, str(tmp_path / "work"), [RSyncStaging("ann@host")])


@pytest.mark.parametrize(
    ("host", "written"),
    [
        ("ann@fd00::1", "ann@[fd00::1]"),
        ("fd00::1", "[fd00::1]"),
        ("ann@[fd00::1]", "ann@[fd00::1]"),
        ("ann@host", "ann@host"),
    ],
)
def test_a_host_may_be_an_address_of_ipv6(
    host: str, written: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    copies: list[str] = []
    monkeypatch.setattr(rsync, "_rsync", lambda *names: copies.extend(names))
    file = File(str(tmp_path / "a"))
    rsync.HostCopy(host).fetch(file)
    assert copies[0] == f"{written}:{file.path}"


def text_of(file: File) -> str:
    return Path(file).read_text()


def write(file: File, text: str) -> str:
    Path(file).write_text(text)
    return "written"


def fail(file: File) -> None:
    Path(file).write_text("half of it")
    raise KeyError("failed")


def writing(kernel: StandInKernel, function: Any, file: File) -> tuple[Any, File]:
    """Wraps a function as the kernel does for a file that a task writes; returns it and the file."""
    copy = file.cleancopy()
    assert kernel.data_manager.stage_out(copy, "cluster", Future()) is None
    return kernel.data_manager.replace_task_stage_out(copy, function, "cluster"), copy


@pytest.mark.parametrize("name", ["in.txt", "a b.txt", "$(touch hacked);.txt", "-v", "a:b.txt"])
def test_a_task_reads_the_file_of_the_host(
    kernel: StandInKernel, tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_text("hello")
    assert kernel.run(text_of, File(tmp_path / name)) == "hello"
    assert (tmp_path / "work" / name).read_text() == "hello"
    log = (tmp_path / "log").read_text()
    assert log == f"ann@host:{tmp_path / name} -> {tmp_path / 'work' / name}\n"


def test_a_relative_path_is_one_of_the_program_that_submits(
    kernel: StandInKernel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "in.txt").write_text("hello")
    monkeypatch.chdir(tmp_path)
    assert kernel.run(text_of, File("in.txt")) == "hello"


def test_a_local_name_with_a_colon_is_not_taken_for_a_host(
    kernel: StandInKernel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "a:b.txt").write_text("hello")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    kernel.executors["cluster"].working_dir = None
    assert kernel.run(text_of, File(tmp_path / "a:b.txt")) == "hello"
    assert (tmp_path / "elsewhere" / "a:b.txt").read_text() == "hello"


def test_a_file_goes_to_the_host_when_the_task_has_returned(
    kernel: StandInKernel, tmp_path: Path
) -> None:
    function, file = writing(kernel, write, File(tmp_path / "out.txt"))
    assert file.filepath == str(tmp_path / "work" / "out.txt")
    assert function(file, "hello") == "written"
    assert (tmp_path / "out.txt").read_text() == "hello"


def test_the_file_of_a_task_that_failed_does_not_go_to_the_host(
    kernel: StandInKernel, tmp_path: Path
) -> None:
    function, file = writing(kernel, fail, File(tmp_path / "out.txt"))
    with pytest.raises(KeyError, match="failed"):
        function(file)
    assert not (tmp_path / "out.txt").exists()


def test_a_copy_that_fails_says_which_and_why(kernel: StandInKernel, tmp_path: Path) -> None:
    with pytest.raises(StagingError, match="rsync: No such file or directory") as caught:
        kernel.run(text_of, File(tmp_path / "missing.txt"))
    assert f"ann@host:{tmp_path / 'missing.txt'}" in str(caught.value)
    assert str(tmp_path / "work" / "missing.txt") in str(caught.value)

    function, file = writing(kernel, write, File(tmp_path / "no folder" / "out.txt"))
    with pytest.raises(RuntimeError, match="rsync returned 1"):
        function(file, "hello")


def test_a_worker_without_rsync_says_so(
    kernel: StandInKernel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StagingError, match="rsync cannot be run"):
        kernel.run(text_of, File(tmp_path / "in.txt"))


def test_rsync_takes_paths_in_both_directions() -> None:
    provider = RSyncStaging("host")
    assert provider.can_stage_in(File("in.txt"))
    assert provider.can_stage_out(File("file:///data/out.txt"))
    assert not provider.can_stage_in(File("http://host/in.txt"))
    assert repr(provider) == "RSyncStaging('host')"
