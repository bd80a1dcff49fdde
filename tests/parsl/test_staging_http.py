"""Files of a web server, fetched by tasks of their own and within the tasks that read them."""

from __future__ import annotations

import gzip
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from gristmill import Executor
from gristmill.parsl import File
from gristmill.parsl.data_provider.http import HTTPInTaskStaging, HTTPSeparateTaskStaging
from gristmill.parsl.data_provider.staging import StagingError

from staging_kernel import StandInKernel, kernel_of

CONTENT = bytes(range(256)) * 20_000


class Handler(BaseHTTPRequestHandler):
    """A request handler that answers according to the path."""

    def do_GET(self) -> None:
        answers: dict[str, Callable[[], None]] = {
            "/data/in.bin": lambda: self.answer(CONTENT),
            "/data/a%20b.bin": lambda: self.answer(CONTENT),
            "/empty.bin": lambda: self.answer(b""),
            "/packed.bin": lambda: self.answer(gzip.compress(CONTENT), encoding="gzip"),
            "/strange.bin": lambda: self.answer(b"?", encoding="br"),
            "/short.bin": lambda: self.answer(CONTENT, claimed=len(CONTENT) + 1),
            "/moved.bin": lambda: self.redirect("/data/in.bin"),
            "/secret.bin": self.answer_who_may_know,
            "/to-secret.bin": lambda: self.redirect("/secret.bin"),
        }
        answers.get(self.path, lambda: self.send_error(404))()

    def answer(self, content: bytes, *, claimed: int | None = None, encoding: str = "") -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(claimed or len(content)))
        if encoding:
            self.send_header("Content-Encoding", encoding)
        self.end_headers()
        self.wfile.write(content)

    def redirect(self, path: str) -> None:
        self.send_response(302)
        self.send_header("Location", path)
        self.end_headers()

    def answer_who_may_know(self) -> None:
        expected = f"Basic {b64encode(b'ann:s3:cret').decode()}"
        if self.headers.get("Authorization") == expected:
            self.answer(CONTENT)
        else:
            self.send_error(401)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.fixture(params=[HTTPSeparateTaskStaging, HTTPInTaskStaging])
def kernel(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> StandInKernel:
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    return kernel_of(monkeypatch, str(tmp_path / "work"), [request.param()])


def content_of(file: File) -> bytes:
    return Path(file).read_bytes()


def place_of(file: File) -> str:
    return str(file)


def file_names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("data/in.bin", CONTENT),
        ("data/in.bin#part", CONTENT),
        ("empty.bin", b""),
        ("moved.bin", CONTENT),
        ("packed.bin", CONTENT),
        ("data/a b.bin", CONTENT),
        ("data/a%20b.bin", CONTENT),
    ],
)
def test_a_task_reads_what_the_server_has(
    kernel: StandInKernel, port: int, path: str, content: bytes
) -> None:
    assert kernel.run(content_of, File(f"http://127.0.0.1:{port}/{path}")) == content


def test_a_file_goes_by_its_name_into_the_working_directory(
    kernel: StandInKernel, port: int, tmp_path: Path
) -> None:
    file = File(f"http://127.0.0.1:{port}/data/in.bin")
    assert kernel.run(place_of, file) == str(tmp_path / "work" / "in.bin")
    assert file_names(tmp_path / "work") == ["in.bin"]


def test_a_file_goes_into_the_directory_of_the_task_if_there_is_no_working_directory(
    monkeypatch: pytest.MonkeyPatch, port: int, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    kernel = kernel_of(monkeypatch, None)
    file = File(f"http://127.0.0.1:{port}/data/in.bin")
    assert kernel.run(content_of, file) == CONTENT
    assert file_names(tmp_path) == ["in.bin"]


def test_a_file_that_was_fetched_may_be_read_by_whom_the_umask_lets(
    kernel: StandInKernel, port: int, tmp_path: Path
) -> None:
    (tmp_path / "other").touch()
    kernel.run(content_of, File(f"http://127.0.0.1:{port}/data/in.bin"))
    fetched, other = tmp_path / "work" / "in.bin", tmp_path / "other"
    assert fetched.stat().st_mode == other.stat().st_mode


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("missing.bin", "404"),
        ("short.bin", "ended 1 bytes early"),
        ("strange.bin", "'br'"),
        ("secret.bin", "401"),
    ],
)
def test_what_does_not_arrive_whole_leaves_no_file(
    kernel: StandInKernel, port: int, tmp_path: Path, path: str, reason: str
) -> None:
    with pytest.raises(StagingError, match=reason) as caught:
        kernel.run(content_of, File(f"http://127.0.0.1:{port}/{path}"))
    assert f"http://127.0.0.1:{port}/{path}" in str(caught.value)
    assert str(tmp_path / "work" / path) in str(caught.value)
    assert file_names(tmp_path / "work") == []


def test_a_failed_transfer_leaves_the_file_of_an_earlier_one(
    kernel: StandInKernel, port: int, tmp_path: Path
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "missing.bin").write_bytes(b"earlier")
    with pytest.raises(StagingError):
        kernel.run(content_of, File(f"http://127.0.0.1:{port}/missing.bin"))
    assert (tmp_path / "work" / "missing.bin").read_bytes() == b"earlier"


def test_a_reader_of_the_old_file_is_not_disturbed_by_a_new_one(
    kernel: StandInKernel, port: int, tmp_path: Path
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "in.bin").write_bytes(b"earlier")
    with open(tmp_path / "work" / "in.bin", "rb") as reader:
        kernel.run(content_of, File(f"http://127.0.0.1:{port}/data/in.bin"))
        assert reader.read() == b"earlier"


def test_a_server_that_is_not_there_is_named(kernel: StandInKernel) -> None:
    with pytest.raises(StagingError, match=r"http://127\.0\.0\.1:1/in\.bin"):
        kernel.run(content_of, File("http://127.0.0.1:1/in.bin"))


def test_a_url_without_a_name_is_refused_before_anything_runs(kernel: StandInKernel) -> None:
    with pytest.raises(StagingError, match="no name"):
        kernel.run(content_of, File("http://127.0.0.1:1/data/"))
    assert not kernel.called


@pytest.mark.parametrize("path", ["secret.bin", "to-secret.bin"])
def test_credentials_come_from_the_users_file_of_them(
    kernel: StandInKernel, port: int, tmp_path: Path, path: str
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login ann password s3:cret\n")
    assert kernel.run(content_of, File(f"http://127.0.0.1:{port}/{path}")) == CONTENT


def test_credentials_come_from_the_url(kernel: StandInKernel, port: int) -> None:
    url = f"http://ann:s3%3Acret@127.0.0.1:{port}/secret.bin"
    assert kernel.run(content_of, File(url)) == CONTENT


def test_a_failure_does_not_tell_the_password(kernel: StandInKernel, port: int) -> None:
    with pytest.raises(StagingError) as caught:
        kernel.run(content_of, File(f"http://ann:wrong-one@127.0.0.1:{port}/secret.bin"))
    assert f"http://ann:***@127.0.0.1:{port}/secret.bin" in str(caught.value)
    assert "wrong-one" not in str(caught.value)


@pytest.mark.parametrize("provider", [HTTPSeparateTaskStaging(), HTTPInTaskStaging()])
def test_web_files_are_taken_for_reading_only(provider: Any) -> None:
    assert provider.can_stage_in(File("http://host/in.bin"))
    assert provider.can_stage_in(File("https://host/in.bin"))
    assert not provider.can_stage_in(File("in.bin"))
    assert not provider.can_stage_out(File("http://host/in.bin"))
    assert repr(provider) == f"{type(provider).__name__}()"


def test_a_task_of_its_own_fetches_the_file_on_the_same_executor(
    monkeypatch: pytest.MonkeyPatch, port: int, tmp_path: Path
) -> None:
    kernel = kernel_of(monkeypatch, str(tmp_path))
    kernel.run(content_of, File(f"http://127.0.0.1:{port}/data/in.bin"))
    assert kernel.called == [("cluster", "_http_stage_in")]


def test_a_task_of_its_own_waits_for_what_makes_the_file(
    monkeypatch: pytest.MonkeyPatch, port: int, tmp_path: Path
) -> None:
    kernel = kernel_of(monkeypatch, str(tmp_path))
    file = File(f"http://127.0.0.1:{port}/data/in.bin")
    upload: Future[None] = Future()
    staged = HTTPSeparateTaskStaging().stage_in(kernel.data_manager, "cluster", file, upload)
    assert not staged.done()
    assert not (tmp_path / "in.bin").exists()
    upload.set_result(None)
    assert staged.result() is file
    assert content_of(file) == CONTENT


def test_a_worker_fetches_the_file_of_its_task(
    monkeypatch: pytest.MonkeyPatch, executor: Executor, port: int, tmp_path: Path
) -> None:
    kernel = kernel_of(monkeypatch, str(tmp_path), [HTTPInTaskStaging()])
    file = File(f"http://127.0.0.1:{port}/data/in.bin")
    staged, function = kernel.data_manager.optionally_stage_in(file, content_of, "cluster")
    assert not (tmp_path / "in.bin").exists()
    assert executor.submit(function, staged).result() == CONTENT
    assert not kernel.called


def test_a_worker_says_what_did_not_arrive(
    monkeypatch: pytest.MonkeyPatch, executor: Executor, port: int, tmp_path: Path
) -> None:
    kernel = kernel_of(monkeypatch, str(tmp_path), [HTTPInTaskStaging()])
    file = File(f"http://127.0.0.1:{port}/missing.bin")
    staged, function = kernel.data_manager.optionally_stage_in(file, content_of, "cluster")
    with pytest.raises(StagingError, match="404") as caught:
        executor.submit(function, staged).result()
    assert caught.value.source == file.url
