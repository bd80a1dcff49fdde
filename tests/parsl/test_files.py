"""The attributes of a File, made from a path and from a URL."""

from __future__ import annotations

import os
import pickle
from concurrent.futures import Future
from pathlib import Path

import pytest

from gristmill.parsl import File
from gristmill.parsl._kernel.files import is_file


@pytest.mark.parametrize(
    "path", ["in.txt", "./in.txt", "/data/in.txt", "a b/c.txt", "some :// path"]
)
def test_a_path_is_a_file_of_the_file_scheme(path: str) -> None:
    file = File(path)
    assert (file.url, file.scheme, file.netloc, file.path) == (path, "file", "", path)
    assert file.filename == path.rsplit("/", 1)[-1]
    assert file.filepath == str(file) == os.fspath(file) == path


@pytest.mark.parametrize(
    "path", ["run#1.txt", "what?.txt", "a;b.txt", "//twice/in.txt", " in.txt", "100%.txt"]
)
def test_a_path_is_taken_as_it_is_even_if_a_url_would_end_there(path: str) -> None:
    assert File(path).filepath == path


def test_a_file_url_is_the_path_in_it() -> None:
    file = File("file:///scratch/in.txt")
    assert (file.scheme, file.netloc, file.path, file.filename) == (
        "file",
        "",
        "/scratch/in.txt",
        "in.txt",
    )
    assert file.filepath == "/scratch/in.txt"


@pytest.mark.parametrize("scheme", ["http", "https", "ftp", "globus", "other"])
def test_a_url_is_divided_into_scheme_host_and_path(scheme: str) -> None:
    url = f"{scheme}://host.example.org:80/some/path/name.txt"
    file = File(url)
    assert (file.url, file.scheme, file.netloc) == (url, scheme, "host.example.org:80")
    assert (file.path, file.filename, file.local_path) == ("/some/path/name.txt", "name.txt", None)


def test_the_query_of_a_url_is_not_part_of_the_name() -> None:
    assert File("https://host/data.csv?version=2#top").filename == "data.csv"


def test_a_file_is_made_of_any_path_object(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("hello")
    (entry,) = os.scandir(tmp_path)
    for source in (tmp_path / "in.txt", entry, File(tmp_path / "in.txt")):
        with open(File(source)) as opened:
            assert opened.read() == "hello"


@pytest.mark.parametrize("wrong", [None, 3, b"in.txt", ["in.txt"]])
def test_a_file_is_made_of_nothing_else(wrong: object) -> None:
    with pytest.raises(TypeError, match=type(wrong).__name__):
        File(wrong)  # type: ignore[arg-type]


def test_a_remote_file_has_no_path_before_it_is_staged() -> None:
    file = File("http://host/in.txt")
    with pytest.raises(ValueError, match=r"No local_path set for .*http://host/in\.txt"):
        str(file)
    file.local_path = "/work/in.txt"
    assert str(file) == "/work/in.txt"


def test_the_local_path_comes_before_the_path() -> None:
    file = File("/data/in.txt")
    file.local_path = "/work/in.txt"
    assert file.filepath == "/work/in.txt"


def test_a_clean_copy_was_not_staged_anywhere() -> None:
    file = File("http://host/in.txt")
    file.local_path = "/work/in.txt"
    copy = file.cleancopy()
    assert (copy.url, copy.local_path) == (file.url, None)
    assert file.local_path == "/work/in.txt"


def test_the_representation_says_everything() -> None:
    file = File("ftp://host/dir/in.txt")
    described = f"<File at {id(file):#x} url=ftp://host/dir/in.txt scheme=ftp netloc=host path=/dir/in.txt filename=in.txt"
    assert repr(file) == f"{described}>"
    file.local_path = "in.txt"
    assert repr(file) == f"{described} local_path=in.txt>"


def test_a_file_travels_with_its_local_path() -> None:
    file = File("http://host/in.txt")
    file.local_path = "/work/in.txt"
    assert vars(pickle.loads(pickle.dumps(file))) == vars(file)


def test_two_files_of_one_url_are_two() -> None:
    one, other = File("in.txt"), File("in.txt")
    assert one != other
    assert len({one, other}) == 2


def test_only_files_are_taken_for_files() -> None:
    class Special(File):
        pass

    assert is_file(File("in.txt"))
    assert is_file(Special("in.txt"))
    for value in (
        None,
        1,
        1.5,
        "in.txt",
        b"in.txt",
        Path("in.txt"),
        [File("in.txt")],
        Future(),
        object(),
    ):
        assert not is_file(value)


def test_files_of_parsl_are_files_too() -> None:
    theirs = pytest.importorskip("parsl.data_provider.files")
    assert is_file(theirs.File("in.txt"))
