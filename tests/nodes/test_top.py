"""``gristmill top`` shows the activity of programs with nodes, and ends when no program is left."""

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

from gristmill import Context, ContextError, Executor, _serving
from gristmill._nodes.local import LocalNodes
from gristmill._top import place, status, table
from interrupted import at_each_place

import calls
from stage import Gate

TOP = [sys.executable, "-m", "gristmill._cli", "top", "--once", "--interval", "0.1"]


class Labelled(LocalNodes):
    """Agents with labels of their owner."""

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
    said = look_until(f"process {os.getpid()}")
    assert "outstanding 1: ready 0, with workers 1" in said
    assert "local0" in said
    assert "connected" in said
    assert "rack=7, site=here, group=left" in said
    gate.open()
    held.result()
    executor.shutdown()
    assert look() == "no program of this user runs an executor now\n"


def look_until(text: str) -> str:
    """Runs ``top`` until it shows a text: a program answers a moment after its first executor has started."""
    while text not in (said := look()):
        pass
    return said


def test_top_shows_an_executor_of_this_machine(own_folder: Path, gate: Gate) -> None:
    with Executor(2) as executor:
        held = executor.submit(calls.enter, gate.path)
        gate.wait_entered()
        said = look_until(f"process {os.getpid()}")
        assert "outstanding 1: ready 0, with workers 1" in said
        assert "workers here 2, busy" in said
        assert "connected" not in said, "there are no nodes to show"
        gate.open()
        held.result()
    assert look() == "no program of this user runs an executor now\n"


@pytest.fixture
def begun(own_folder: Path) -> Iterator[list[Executor]]:
    """Yields executors that have announced themselves to ``top``; they run no tasks."""
    begun: list[Executor] = []
    yield begun
    _serving.end()


def test_executors_may_start_while_top_is_told_of_others(begun: list[Executor]) -> None:

    def begin(_: object = None) -> None:
        begun.append(Executor(1))
        _serving.begin(begun[-1])

    def begin_anew() -> None:
        begun.clear()
        begin()

    def look(_: object) -> None:
        assert begun[0] in _serving.executors()

    assert at_each_place(_serving, begin_anew, look, begin)


def test_an_executor_that_starts_while_the_last_one_ends_is_shown(begun: list[Executor]) -> None:
    def begin(_: object = None) -> None:
        begun.append(Executor(1))
        _serving.begin(begun[-1])

    def begin_anew() -> None:
        begun.clear()
        _serving.end()
        begin()

    def leave(_: object) -> None:
        _serving.leave(begun[0])
        assert bool(_serving._servers) == (len(begun) == 2)

    assert at_each_place(_serving, begin_anew, leave, begin)


def test_top_shows_a_program_that_waits_for_the_end_of_its_executor(
    own_folder: Path, gate: Gate
) -> None:
    executor = Executor(1)
    executor.submit(calls.enter, gate.path)
    gate.wait_entered()
    executor.shutdown(wait=False)
    end = threading.Thread(target=executor.shutdown)
    end.start()
    look_until("outstanding 1: ready 0, with workers 1")
    gate.open()
    end.join()
    assert look() == "no program of this user runs an executor now\n"


@pytest.mark.parametrize(
    "ending", ["executor.shutdown()", "executor.shutdown(wait=False)", "pass", "del executor"]
)
@pytest.mark.parametrize("nodes", ["", ", nodes=on.local(1)"])
def test_a_program_that_has_ended_leaves_no_socket(
    own_folder: Path, ending: str, nodes: str
) -> None:
    program = (
        "import os; from gristmill import Executor, on; from gristmill._top import place\n"
        f"executor = Executor(1{nodes}); executor.submit(int).result()\n"
        "while not os.path.exists(f'{place.folder()}/{os.getpid()}'): pass\n"
        f"{ending}\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    (folder,) = own_folder.iterdir()
    assert list(folder.iterdir()) == []


def test_a_program_loads_what_answers_take_when_it_is_asked(own_folder: Path) -> None:
    program = """import os, sys; from gristmill import Executor; from gristmill._top import place
executor = Executor(1); executor.submit(int).result()
path = f'{place.folder()}/{os.getpid()}'
while not os.path.exists(path): pass
before = set(sys.modules)
import socket
with socket.socket(socket.AF_UNIX) as asker:
    asker.connect(path)
    answer = asker.makefile().read()
print(*before & {'socket', 'json', 'tempfile', 'random'}, answer)"""
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    (answer,) = json.loads(said.stdout)
    assert answer["workers"] == 1


def test_a_time_limit_for_all_sockets_is_none_for_askers(own_folder: Path) -> None:
    program = """import os, socket; from gristmill import Executor; from gristmill._top import place
socket.setdefaulttimeout(1e-6)
executor = Executor(1); executor.submit(int).result()
path = f'{place.folder()}/{os.getpid()}'
while not os.path.exists(path): pass
socket.setdefaulttimeout(None)
with socket.socket(socket.AF_UNIX) as asker:
    asker.connect(path)
    print(asker.makefile().read())"""
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert json.loads(said.stdout)[0]["workers"] == 1


def test_the_path_of_a_socket_exists_once_it_accepts_connections(
    own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that arrived between the two steps would take the program for dead and remove its socket."""
    seen: list[list[str]] = []
    place_socket = place.socket

    class Slow(place_socket):  # type: ignore[misc, valid-type]
        def listen(self, *args: int) -> None:
            seen.append(place.names())
            super().listen(*args)

    monkeypatch.setattr(place, "socket", Slow)
    listener, path = place.listen()
    with contextlib.closing(listener):
        assert seen == [[]]
        assert place.names() == [str(os.getpid())]
        with socket.socket(socket.AF_UNIX) as asker:
            asker.connect(path)
    os.unlink(path)


def test_a_socket_of_a_program_that_ended_before_it_listened_is_removed(sockets: Path) -> None:
    (sockets / ".4194305").touch()  # more than any process has
    (sockets / f".{os.getpid()}").touch()
    assert look() == "no program of this user runs an executor now\n"
    assert os.listdir(sockets) == [f".{os.getpid()}"]


def test_two_askers_may_remove_the_same_socket(
    sockets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (sockets / ".4194305").touch()
    (sockets / "1").touch()

    def remove_twice(path: str) -> None:
        os.remove(path)  # by the other asker
        raise FileNotFoundError(path)

    monkeypatch.setattr(place.os, "unlink", remove_twice)
    assert place.names() == ["1"]


def test_a_forked_child_leaves_the_socket_to_its_parent(own_folder: Path, gate: Gate) -> None:
    with Executor(1) as executor:
        executor.submit(calls.enter, gate.path)
        gate.wait_entered()
        look_until(f"process {os.getpid()}")
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        assert f"process {os.getpid()}" in look()
        gate.open()


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
    shown = {line.split()[0]: line for line in look_until("broken").splitlines() if line}
    assert shown["model"].split()[2:7] == ["0", "0", "3", "0", "1"]
    assert 'failed: on node local0: the setup of context "broken" failed' in shown["broken"]


def test_a_socket_that_a_killed_program_left_is_forgotten(own_folder: Path) -> None:
    program = """import os; from gristmill import Executor, on; from gristmill._top import place
e = Executor(nodes=on.local(1)); e.submit(int).result()
while not os.path.exists(f'{place.folder()}/{os.getpid()}'): pass
os.kill(os.getpid(), 9)"""
    subprocess.run([sys.executable, "-c", program], check=False)
    (folder,) = own_folder.iterdir()
    assert len(list(folder.iterdir())) == 1
    assert look() == "no program of this user runs an executor now\n"
    assert not list(folder.iterdir())
    assert folder.stat().st_mode & 0o777 == 0o700


#: The answer of a program about an executor with nodes that has none.
ANSWER: dict[str, Any] = {
    "pid": 7,
    "program": "a program",
    "executor": 0,
    "workers": 1,
    "is_local": False,
    "stats": {"outstanding": 0, "ready": 0, "in_flight": 0, "blocked": 0, "busy_ns": 0},
    "nodes": [],
    "failures": [],
    "contexts": [],
}


@pytest.fixture
def sockets(own_folder: Path) -> Path:
    """Returns the folder with the sockets of programs."""
    os.mkdir(place.folder(), mode=0o700)
    return Path(place.folder())


@contextlib.contextmanager
def answering(path: Path, words: bytes, ends: bool = True) -> Iterator[None]:
    """Serves one answer as a program does; without ``ends`` the answer never ends."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def answer() -> None:
            asker, _ = listener.accept()
            with asker, contextlib.suppress(OSError):
                asker.sendall(words)
                if not ends:
                    asker.recv(1)  # until the other side has stopped waiting

        thread = threading.Thread(target=answer)
        thread.start()
        yield
        thread.join()


def test_only_answers_are_shown(sockets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "_ANSWER_MAX", 1000)
    monkeypatch.setattr(status, "_ANSWER_S", 100.0)
    monkeypatch.setattr(status, "_ANSWERS_S", 100.0)
    for words in (b"[1]", b"[{}]", b"{}", b"\xff", b"", b'"' + b"x" * 2000 + b'"'):
        with answering(sockets / "1.0", words):
            assert list(status.ask_all()) == []
        os.unlink(sockets / "1.0")
    with answering(sockets / "1.0", json.dumps([ANSWER, ANSWER]).encode()):
        assert list(status.ask_all()) == [ANSWER, ANSWER]


def test_a_node_whose_agent_started_again_is_not_negatively_busy() -> None:
    node: dict[str, Any] = {
        "name": "n1",
        "connected": True,
        "workers": 2,
        "running": 0,
        "waiting": 0,
        "busy_s": 100.0,
        "round_trip_s": None,
        "sent_bytes": 0,
        "received_bytes": 0,
        "blob_bytes_fetched": 0,
    }
    again = node | {"busy_s": 0.0}
    assert table._node(node, again, 1.0).split()[5] == "0%"
    assert table._node(again, node | {"busy_s": 1.0}, 1.0).split()[5] == "50%"


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
    assert f"{sockets} can be entered by other users" in done.stderr
    assert "XDG_RUNTIME_DIR" in done.stderr


def test_a_folder_of_another_user_is_not_trusted(
    sockets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place, "folder", lambda: str(sockets))
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    with pytest.raises(PermissionError, match="belongs to user"):
        list(status.ask_all())


def test_a_link_is_no_folder(own_folder: Path, tmp_path: Path) -> None:
    (own_folder / "elsewhere").mkdir(mode=0o700)
    os.symlink(own_folder / "elsewhere", place.folder())
    with pytest.raises(PermissionError, match="is not a folder"):
        list(status.ask_all())


def test_nothing_that_is_shown_commands_the_terminal() -> None:
    failures = [["node\x1b[2J", "no\nsuch \x9bpartition\u202e \udc80"]]
    said = {**ANSWER, "program": "evil\x1b]0;title\x07", "failures": failures}
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
        while b"runs an executor now" not in screen:
            screen += os.read(ours, 4096)
        assert b"gristmill top" in screen
        os.write(ours, b"q")
        with contextlib.suppress(OSError):  # the kernel reports the end of a terminal by this error
            while os.read(ours, 4096):
                pass
    os.close(ours)
    assert shown.returncode == 0
