"""``gristmill top`` shows what programs with nodes do, and ends with nothing to show."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import socket
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gristmill import Context, ContextError, Executor
from gristmill._nodes.local import LocalNodes
from gristmill._top import status, table

import calls
from stage import Gate

TOP = [sys.executable, "-m", "gristmill._cli", "top", "--once", "--interval", "0.1"]


class Labelled(LocalNodes):
    """Agents whose owner says something of them."""

    options = ("--label", "rack=7", "--label", "site=here", "--group", "left")


def look() -> str:
    return subprocess.run(TOP, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path


def test_top_shows_nodes_and_what_they_have(
    own_folder: Path, make_nodes: Callable[..., tuple[Executor, LocalNodes]], gate: Gate
) -> None:
    executor, _ = make_nodes(1, 1, kind=Labelled)
    held = executor.submit(calls.enter, gate.path)
    gate.wait_entered()
    said = look()
    assert f"process {os.getpid()}" in said
    assert "outstanding 1: ready 0, with workers 1" in said
    assert "local0" in said
    assert "connected" in said
    assert "rack=7, site=here, group=left" in said
    gate.open()
    held.result()
    executor.shutdown()
    assert look() == "no program of this user has nodes now\n"


def test_top_shows_contexts_and_what_they_hold(
    own_folder: Path, make_nodes: Callable[..., tuple[Executor, LocalNodes]]
) -> None:
    executor, _ = make_nodes(1, 1)
    context = Context(dict, name="model")
    options = executor.options(context=context)
    assert [options.submit(abs, -1).result() for _ in range(3)] == [1] * 3
    failing = Context(calls.fail, name="broken")
    with pytest.raises(ContextError):
        executor.options(context=failing).submit(abs, -1).result()
    shown = {line.split()[0]: line for line in look().splitlines() if line}
    assert shown["model"].split()[2:7] == ["0", "0", "3", "0", "1"]
    assert 'failed: on node local0: the setup of context "broken" failed' in shown["broken"]


def test_a_socket_that_a_killed_program_left_is_forgotten(own_folder: Path) -> None:
    program = "import os; from gristmill import Executor, on; e = Executor(nodes=on.local(1)); e.submit(int).result(); os.kill(os.getpid(), 9)"
    subprocess.run([sys.executable, "-c", program], check=False)
    (folder,) = own_folder.iterdir()
    assert len(list(folder.iterdir())) == 1
    assert look() == "no program of this user has nodes now\n"
    assert not list(folder.iterdir())
    assert folder.stat().st_mode & 0o777 == 0o700


#: What a program without nodes would answer.
ANSWER: dict[str, Any] = {
    "pid": 7,
    "program": "a program",
    "executor": 0,
    "stats": {"outstanding": 0, "ready": 0, "in_flight": 0, "blocked": 0},
    "nodes": [],
    "troubles": [],
    "contexts": [],
}


@pytest.fixture
def sockets(own_folder: Path) -> Path:
    """The folder with the sockets of programs."""
    os.mkdir(status.folder(), mode=0o700)
    return Path(status.folder())


@contextlib.contextmanager
def answering(path: Path, words: bytes, ends: bool = True) -> Iterator[None]:
    """A program that answers once; without ``ends`` it never says that this was all."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def answer() -> None:
            asker, _ = listener.accept()
            with asker, contextlib.suppress(OSError):
                asker.sendall(words)
                if not ends:
                    asker.recv(1)  # until the other side has given up

        thread = threading.Thread(target=answer)
        thread.start()
        yield
        thread.join()


def test_only_answers_are_shown(sockets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "_ANSWER_MAX", 1000)
    monkeypatch.setattr(status, "_ANSWER_S", 100.0)
    monkeypatch.setattr(status, "_ANSWERS_S", 100.0)
    for words in (b"[]", b"{}", b"\xff", b"", b'"' + b"x" * 2000 + b'"'):
        with answering(sockets / "1.0", words):
            assert list(status.ask_all()) == []
        os.unlink(sockets / "1.0")
    with answering(sockets / "1.0", json.dumps(ANSWER).encode()):
        assert list(status.ask_all()) == [ANSWER]


def test_who_never_ends_an_answer_is_left_out(
    sockets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status, "_ANSWER_S", 0.01)
    with answering(sockets / "1.0", b"{", ends=False):
        assert list(status.ask_all()) == []


@pytest.mark.parametrize("mode", [0o770, 0o701, 0o777])
def test_a_folder_that_others_can_enter_is_not_believed(sockets: Path, mode: int) -> None:
    sockets.chmod(mode)
    done = subprocess.run(TOP, capture_output=True, text=True)
    assert done.returncode == 1
    assert f"{sockets} can be entered by others" in done.stderr
    assert "XDG_RUNTIME_DIR" in done.stderr


def test_a_folder_of_somebody_else_is_not_believed(
    sockets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status, "folder", lambda: str(sockets))
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    with pytest.raises(PermissionError, match="belongs to user"):
        list(status.ask_all())


def test_a_link_is_no_folder(own_folder: Path, tmp_path: Path) -> None:
    (own_folder / "elsewhere").mkdir(mode=0o700)
    os.symlink(own_folder / "elsewhere", status.folder())
    with pytest.raises(PermissionError, match="is no folder"):
        list(status.ask_all())


def test_nothing_that_is_shown_commands_the_terminal() -> None:
    troubles = [["node\x1b[2J", "no\nsuch \x9bpartition\u202e \udc80"]]
    said = {**ANSWER, "program": "evil\x1b]0;title\x07", "troubles": troubles}
    lines = table.lines(said, said, 1.0)
    assert all(line.isprintable() for line in lines)
    assert lines[0].startswith("evil")
    assert "no such" in lines[-1]


@pytest.mark.parametrize("kind", ["xterm", "vt100"])
def test_the_screen_is_drawn_until_q_ends_it(own_folder: Path, kind: str) -> None:
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    command = [sys.executable, "-m", "gristmill._cli", "top", "--interval", "0.01"]
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, "TERM": kind}
    ) as shown:
        os.close(theirs)
        screen = b""
        while b"has nodes now" not in screen:
            screen += os.read(ours, 4096)
        assert b"gristmill top" in screen
        os.write(ours, b"q")
        with contextlib.suppress(OSError):  # which is how the end of a terminal is told
            while os.read(ours, 4096):
                pass
    os.close(ours)
    assert shown.returncode == 0
