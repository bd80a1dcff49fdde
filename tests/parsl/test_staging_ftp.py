"""Files of an FTP server, fetched by tasks of their own and within the tasks that read them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from gristmill.parsl import File
from gristmill.parsl.data_provider.ftp import FTPInTaskStaging, FTPSeparateTaskStaging
from gristmill.parsl.data_provider.staging import StagingError

from staging_kernel import StandInKernel, kernel_of

CONTENT = bytes(range(256)) * 5_000


class Server:
    """A server of ``/pub/data/in.bin`` for anonymous, and for ann with her password. It breaks off ``short.bin``."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.listener.close()

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rw", newline="\r\n") as lines:
                self.talk(lines)

    def talk(self, lines: IO[str]) -> None:
        passwords = {"anonymous": "anonymous@", "ann": "s3:cret"}
        user = directory = ""
        with socket.create_server(("127.0.0.1", 0)) as data:
            self.say(lines, "220 hello")
            for line in lines:
                verb, _, operand = line.strip().partition(" ")
                if verb == "USER":
                    user = operand
                    self.say(lines, "331 and the password")
                elif verb == "PASS":
                    known = passwords.get(user) == operand
                    self.say(lines, "230 welcome" if known else "530 no")
                elif verb == "CWD":
                    directory = operand
                    self.say(lines, "250 there")
                elif verb == "TYPE":
                    self.say(lines, "200 done")
                elif verb in ("EPSV", "PASV"):
                    high, low = divmod(data.getsockname()[1], 256)
                    passive = f"227 at (127,0,0,1,{high},{low})"
                    self.say(lines, passive if verb == "PASV" else "500 PASV")
                elif verb == "RETR":
                    self.send(lines, data, f"{directory}/{operand}")
                else:
                    self.say(lines, "221 bye")

    def send(self, lines: IO[str], data: socket.socket, path: str) -> None:
        if path not in ("/pub/data/in.bin", "/pub/data/short.bin"):
            self.say(lines, "550 no such file")
            return
        self.say(lines, "150 here it comes")
        connection, _ = data.accept()
        with connection:
            connection.sendall(CONTENT[: 100 if path.endswith("short.bin") else None])
        self.say(lines, "426 broken off" if path.endswith("short.bin") else "226 that was it")

    def say(self, lines: IO[str], text: str) -> None:
        lines.write(f"{text}\n")
        lines.flush()


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    server = Server()
    yield server.port
    server.close()


@pytest.fixture(params=[FTPSeparateTaskStaging, FTPInTaskStaging])
def kernel(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> StandInKernel:
    return kernel_of(monkeypatch, str(tmp_path / "work"), [request.param()])


def content_of(file: File) -> bytes:
    return Path(file).read_bytes()


@pytest.mark.parametrize("credentials", ["", "ann:s3%3Acret@"])
def test_a_task_reads_what_the_server_has(
    kernel: StandInKernel, port: int, tmp_path: Path, credentials: str
) -> None:
    file = File(f"ftp://{credentials}127.0.0.1:{port}/pub/data/in.bin")
    assert kernel.run(content_of, file) == CONTENT
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["in.bin"]


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/pub/data/missing.bin", "550 no such file"),
        ("/pub/data/short.bin", "426 broken off"),
    ],
)
def test_what_does_not_arrive_whole_leaves_no_file(
    kernel: StandInKernel, port: int, tmp_path: Path, path: str, reason: str
) -> None:
    url = f"ftp://127.0.0.1:{port}{path}"
    with pytest.raises(StagingError, match=reason) as caught:
        kernel.run(content_of, File(url))
    assert url in str(caught.value)
    assert list((tmp_path / "work").iterdir()) == []


def test_a_wrong_password_is_an_error_that_does_not_tell_it(
    kernel: StandInKernel, port: int
) -> None:
    with pytest.raises(StagingError, match=r"ann:\*\*\*@.*530 no") as caught:
        kernel.run(content_of, File(f"ftp://ann:wrong-one@127.0.0.1:{port}/pub/data/in.bin"))
    assert "wrong-one" not in str(caught.value)


@pytest.mark.parametrize("host", ["127.0.0.1:1", "127.0.0.1:no-port"])
def test_a_server_that_cannot_be_reached_is_named(kernel: StandInKernel, host: str) -> None:
    with pytest.raises(StagingError, match=f"ftp://{host}/in"):
        kernel.run(content_of, File(f"ftp://{host}/in.bin"))


@pytest.mark.parametrize("provider", [FTPSeparateTaskStaging(), FTPInTaskStaging()])
def test_ftp_files_are_taken_for_reading_only(provider: Any) -> None:
    assert provider.can_stage_in(File("ftp://host/in.bin"))
    assert not provider.can_stage_in(File("http://host/in.bin"))
    assert not provider.can_stage_out(File("ftp://host/in.bin"))
    assert repr(provider) == f"{type(provider).__name__}()"
