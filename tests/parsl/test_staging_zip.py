"""Files inside zip archives: tasks extract them and add them, several at the same time."""

from __future__ import annotations

import os
import pickle
import zipfile
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gristmill.parsl import File
from gristmill.parsl.data_provider.staging import StagingError
from gristmill.parsl.data_provider.zip import (
    ZipAuthorityError,
    ZipFileError,
    ZipFileStaging,
    zip_path_split,
)

from stage import Script
from staging_kernel import StandInKernel, kernel_of

pytestmark = pytest.mark.slow


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> StandInKernel:
    return kernel_of(monkeypatch, str(tmp_path / "work"))


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return tmp_path / "results" / "all.zip"


def text_of(file: File) -> str:
    return Path(file).read_text()


def add(kernel: StandInKernel, archive: Path, member: str, text: str) -> Future[Any]:
    """Stages a file out as the kernel does, and writes it as the app would."""
    app: Future[None] = Future()
    file = File(f"zip:{archive}/{member}")
    staged = kernel.data_manager.stage_out(file, "cluster", app)
    assert staged is not None
    Path(file).write_text(text)
    app.set_result(None)
    return staged


def members(archive: Path) -> dict[str, str]:
    with zipfile.ZipFile(archive) as opened:
        assert opened.testzip() is None
        names = opened.namelist()
        assert len(set(names)) == len(names)
        return {name: opened.read(name).decode() for name in names}


@pytest.mark.parametrize("member", ["data.txt", "deep/er/data.txt", "other.zip/data.txt"])
def test_a_task_reads_a_file_of_an_archive(
    kernel: StandInKernel, tmp_path: Path, member: str
) -> None:
    with zipfile.ZipFile(tmp_path / "in.zip", "w") as opened:
        opened.writestr(member, "hello")
    assert kernel.run(text_of, File(f"zip:{tmp_path}/in.zip/{member}")) == "hello"
    assert (tmp_path / "work" / member).read_text() == "hello"
    assert kernel.called == [("_parsl_internal", "_zip_stage_in")]


def test_a_file_of_an_archive_goes_into_the_directory_of_the_task_without_a_working_directory(
    kernel: StandInKernel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    kernel.executors["cluster"].working_dir = None
    with zipfile.ZipFile(tmp_path / "in.zip", "w") as opened:
        opened.writestr("data.txt", "hello")
    assert kernel.run(text_of, File(f"zip:{tmp_path}/in.zip/data.txt")) == "hello"
    assert (tmp_path / "data.txt").read_text() == "hello"


def test_an_archive_in_a_folder_that_cannot_be_written_to_is_read(
    kernel: StandInKernel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with zipfile.ZipFile(tmp_path / "in.zip", "w") as opened:
        opened.writestr("data.txt", "hello")
    make = os.open

    def refuse(path: str, flags: int, *rest: int) -> int:
        if path.endswith(".lock"):
            raise PermissionError(13, "Permission denied", path)
        return make(path, flags, *rest)

    monkeypatch.setattr(os, "open", refuse)
    assert kernel.run(text_of, File(f"zip:{tmp_path}/in.zip/data.txt")) == "hello"
    with pytest.raises(ZipFileError, match="cannot be locked"):
        add(kernel, tmp_path / "in.zip", "new.txt", "new").result()


def test_tasks_write_into_archives(kernel: StandInKernel, archive: Path) -> None:
    add(kernel, archive, "a/b/data.txt", "0").result()
    add(kernel, archive, "something.txt", "1").result()
    other = archive.with_name("other.zip")
    add(kernel, other, "a/d/other.txt", "2").result()
    assert members(archive) == {"a/b/data.txt": "0", "something.txt": "1"}
    assert members(other) == {"a/d/other.txt": "2"}
    assert set(kernel.called) == {("_parsl_internal", "_zip_stage_out")}


def test_what_is_in_the_archive_is_no_longer_in_the_working_directory(
    kernel: StandInKernel, archive: Path, tmp_path: Path
) -> None:
    add(kernel, archive, "data.txt", "0").result()
    assert list((tmp_path / "work").iterdir()) == []
    assert {path.name for path in archive.parent.iterdir()} == {"all.zip", "all.zip.lock"}


def test_a_file_is_added_once_its_task_is_done(kernel: StandInKernel, archive: Path) -> None:
    app: Future[None] = Future()
    file = File(f"zip:{archive}/data.txt")
    staged = kernel.data_manager.stage_out(file, "cluster", app)
    assert staged is not None
    assert not staged.done()
    Path(file).write_text("0")
    app.set_result(None)
    staged.result()
    assert members(archive) == {"data.txt": "0"}


def test_a_task_that_runs_again_replaces_its_file(kernel: StandInKernel, archive: Path) -> None:
    for member, text in (("data.txt", "first"), ("other.txt", "other"), ("data.txt", "second")):
        add(kernel, archive, member, text).result()
    assert members(archive) == {"other.txt": "other", "data.txt": "second"}


def test_a_file_goes_through_an_archive_from_task_to_task(
    kernel: StandInKernel, archive: Path
) -> None:
    add(kernel, archive, "data.txt", "hello").result()
    assert kernel.run(text_of, File(f"zip:{archive}/data.txt")) == "hello"


def test_many_tasks_add_to_one_archive_at_once(kernel: StandInKernel, archive: Path) -> None:
    expected = {f"{number}.txt": str(number) for number in range(40)}
    with ThreadPoolExecutor(8) as threads:
        added = threads.map(lambda item: add(kernel, archive, *item), expected.items())
        for staged in added:
            staged.result()
    assert members(archive) == expected


def test_parsl_and_we_exclude_each_other(kernel: StandInKernel, archive: Path) -> None:
    filelock = pytest.importorskip("filelock")
    from gristmill.parsl._kernel.staging import archive as archives

    theirs = filelock.FileLock(f"{archive}.lock", timeout=0)
    archive.parent.mkdir()
    with archives._locked(str(archive), archives.fcntl.LOCK_EX), pytest.raises(filelock.Timeout):
        theirs.acquire()
    with theirs, pytest.raises(BlockingIOError):
        archives._open_locked(f"{archive}.lock", archives.fcntl.LOCK_EX | archives.fcntl.LOCK_NB)


def test_a_failure_to_add_leaves_the_archive_as_it_was(
    kernel: StandInKernel, archive: Path
) -> None:
    add(kernel, archive, "kept.txt", "kept").result()
    before = archive.read_bytes()
    app: Future[None] = Future()
    staged = kernel.data_manager.stage_out(File(f"zip:{archive}/missing.txt"), "cluster", app)
    assert staged is not None
    app.set_result(None)
    with pytest.raises(StagingError, match=r"missing\.txt"):
        staged.result()
    assert archive.read_bytes() == before
    assert {path.name for path in archive.parent.iterdir()} == {"all.zip", "all.zip.lock"}


def test_a_full_disk_leaves_the_archive_as_it_was(
    kernel: StandInKernel, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(kernel, archive, "kept.txt", "kept").result()
    before = archive.read_bytes()

    def fill_up(opened: zipfile.ZipFile) -> None:
        assert opened.fp is not None
        opened.fp.flush()
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(zipfile.ZipFile, "_write_end_record", fill_up)
        with pytest.raises(StagingError, match="No space left"):
            add(kernel, archive, "new.txt", "new" * 1000).result()
    assert archive.read_bytes() == before


@pytest.mark.parametrize("next_user", ["adds", "reads"])
@pytest.mark.parametrize("earlier", [0, 1, 200])
def test_an_archive_survives_the_death_of_who_adds_to_it(
    kernel: StandInKernel, archive: Path, script: Script, earlier: int, next_user: str
) -> None:
    expected = {f"{number}.txt": str(number) for number in range(earlier)}
    archive.parent.mkdir()
    if expected:
        with zipfile.ZipFile(archive, "w") as opened:
            for name, text in expected.items():
                opened.writestr(name, text)
    (archive.parent / "new.txt").write_text("new" * 1000)
    with script.start(
        """
        import os, signal, sys, zipfile
        from gristmill.parsl._kernel.staging.archive import add_member

        def die(opened):
            opened.fp.flush()
            os.kill(os.getpid(), signal.SIGKILL)

        zipfile.ZipFile._write_end_record = die
        add_member(sys.argv[1], "new.txt", sys.argv[2])
        """,
        str(archive),
        str(archive.parent / "new.txt"),
    ) as process:
        assert process.wait() == -9
    with pytest.raises(zipfile.BadZipFile):
        zipfile.ZipFile(archive)
    if next_user == "adds" or not earlier:
        add(kernel, archive, "next.txt", "next").result()
        expected["next.txt"] = "next"
    else:
        assert kernel.run(text_of, File(f"zip:{archive}/0.txt")) == "0"
    assert members(archive) == expected


@pytest.mark.parametrize(
    "left_over", [b"", b"short", b"gmzipund" + b"\xff" * 8, b"another!" + b"\0" * 40]
)
def test_a_left_over_that_makes_no_sense_is_thrown_away(
    kernel: StandInKernel, archive: Path, left_over: bytes
) -> None:
    archive.parent.mkdir()
    archive.write_bytes(b"damaged")
    undo = Path(f"{archive}.undo")
    undo.write_bytes(left_over)
    with pytest.raises(StagingError, match="not a zip file"):
        kernel.run(text_of, File(f"zip:{archive}/data.txt"))
    assert archive.read_bytes() == b"damaged"
    assert not undo.exists()


def test_a_left_over_beside_a_good_archive_is_thrown_away(
    kernel: StandInKernel, archive: Path
) -> None:
    add(kernel, archive, "data.txt", "hello").result()
    Path(f"{archive}.undo").write_bytes(b"gmzipund" + b"\0" * 8)
    assert kernel.run(text_of, File(f"zip:{archive}/data.txt")) == "hello"
    assert not Path(f"{archive}.undo").exists()


def test_a_member_that_is_not_there_is_named(
    kernel: StandInKernel, archive: Path, tmp_path: Path
) -> None:
    add(kernel, archive, "data.txt", "hello").result()
    with pytest.raises(StagingError, match="no such member") as caught:
        kernel.run(text_of, File(f"zip:{archive}/other.txt"))
    assert f"zip:{archive}/other.txt" in str(caught.value)
    assert list((tmp_path / "work").iterdir()) == []


def test_an_archive_that_is_not_there_is_named(kernel: StandInKernel, tmp_path: Path) -> None:
    with pytest.raises(StagingError, match=r"nowhere/in\.zip"):
        kernel.run(text_of, File(f"zip:{tmp_path}/nowhere/in.zip/data.txt"))


def test_a_damaged_member_never_reaches_a_task(
    kernel: StandInKernel, archive: Path, tmp_path: Path
) -> None:
    add(kernel, archive, "data.txt", "hello " * 100).result()
    content = bytearray(archive.read_bytes())
    content[40] ^= 0xFF
    archive.write_bytes(content)
    with pytest.raises(StagingError, match=r"data\.txt"):
        kernel.run(text_of, File(f"zip:{archive}/data.txt"))
    assert list((tmp_path / "work").iterdir()) == []


def test_a_member_with_a_password_is_refused(kernel: StandInKernel, archive: Path) -> None:
    add(kernel, archive, "data.txt", "hello").result()
    content = bytearray(archive.read_bytes())
    content[content.index(b"PK\x01\x02") + 8] |= 1
    archive.write_bytes(content)
    with pytest.raises(StagingError, match="encrypted"):
        kernel.run(text_of, File(f"zip:{archive}/data.txt"))


def test_a_url_with_a_host_is_refused(kernel: StandInKernel, archive: Path) -> None:
    file = File(f"zip://host/{archive}/data.txt")
    with pytest.raises(ZipAuthorityError, match="host") as caught:
        kernel.data_manager.stage_out(file, "cluster", Future())
    assert caught.value.file is file
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_who_expects_the_error_of_parsl_gets_it(kernel: StandInKernel) -> None:
    theirs = pytest.importorskip("parsl.data_provider.zip")
    with pytest.raises(theirs.ZipAuthorityError):
        kernel.run(text_of, File("zip://host/all.zip/data.txt"))


def test_an_executor_without_a_working_directory_adds_to_no_archive(
    kernel: StandInKernel, archive: Path
) -> None:
    kernel.executors["cluster"].working_dir = None
    with pytest.raises(RuntimeError, match="requires a working_dir"):
        kernel.data_manager.stage_out(File(f"zip:{archive}/data.txt"), "cluster", Future())


def test_a_zip_url_is_divided_behind_the_archive() -> None:
    assert zip_path_split("/tmp/this.zip/inside/here.txt") == ("/tmp/this.zip", "inside/here.txt")
    assert zip_path_split("/a.zip/b.zip/c.txt") == ("/a.zip", "b.zip/c.txt")


@pytest.mark.parametrize(
    "path", ["/tmp/data.txt", "/tmp/a.zip", "/tmp/a.zip/", "/a.zip//etc/passwd", "/a.zip/x/../../y"]
)
def test_a_zip_url_without_a_member_inside_is_refused(kernel: StandInKernel, path: str) -> None:
    with pytest.raises(ZipFileError, match="a file in an archive has the form"):
        kernel.run(text_of, File(f"zip:{path}"))
    assert not kernel.called


def test_archives_are_taken_in_both_directions() -> None:
    provider = ZipFileStaging()
    assert provider.can_stage_in(File("zip:/a.zip/b.txt"))
    assert provider.can_stage_out(File("zip:/a.zip/b.txt"))
    assert not provider.can_stage_in(File("/a.zip/b.txt"))
    assert repr(provider) == "ZipFileStaging()"
