"""Executors whose workers are behind node agents."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from gristmill import Executor
from gristmill._nodes.local import LocalNodes

COMMAND = [sys.executable, "-m", "gristmill._cli"]

MakeNodes = Callable[..., tuple[Executor, LocalNodes]]


#: Modules whose tests lose no node, except the tests that use `soon_missed`. A busy machine may be silent for longer
#: than usual, so these modules have a longer expiry.
PATIENT = (
    "test_blobs",
    "test_files_of_contexts",
    "test_large_results",
    "test_results_that_stay",
    "test_nodes",
    "test_draining",
    "test_nested_across",
    "test_standing_nodes",
    "test_top",
    "test_used_twice",
    "test_module_versions",
)


@pytest.fixture(scope="module", autouse=True)
def _patience(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if request.module.__name__ in PATIENT:
            patch.setattr("gristmill._nodes.opening.EXPIRY_S", 20.0)
        yield


@pytest.fixture
def soon_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets a short expiry, for the one test of a patient module that loses a node. A link outlives its connections, so
    only silence reveals the loss.
    """
    monkeypatch.setattr("gristmill._nodes.opening.EXPIRY_S", 2.0)


@pytest.fixture
def make_nodes() -> Iterator[MakeNodes]:
    """Makes executors with agents on this machine; they are shut down when the test ends."""
    made: list[Executor] = []

    def make(
        count: int = 2, workers: int = 1, kind: type[LocalNodes] = LocalNodes, **options: object
    ) -> tuple[Executor, LocalNodes]:
        placement = kind(count, workers)
        made.append(Executor(nodes=placement, **options))  # type: ignore[arg-type]
        return made[-1], placement

    yield make
    for executor in made:
        executor.shutdown(cancel_futures=True)


@pytest.fixture
def keys(tmp_path: Path) -> tuple[str, str]:
    """Returns the files of a client's key and of its nodes' key."""
    made = subprocess.run([*COMMAND, "key", tmp_path], capture_output=True, text=True, check=True)
    client, node = made.stdout.split()
    assert os.stat(client).st_mode & 0o777 == os.stat(node).st_mode & 0o777 == 0o600
    return client, node


@pytest.fixture
def start_node() -> Iterator[Callable[..., str]]:
    """Yields a function that starts a listening agent and returns its address; ``by`` is the interpreter and the words
    before it.
    """
    running: list[subprocess.Popen[str]] = []

    def start(key: str, *options: str, by: Sequence[str] = (sys.executable,)) -> str:
        command = [*by, *COMMAND[1:], "node", "--listen", "127.0.0.1:0", "--key", key, *options]
        running.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
        said = running[-1].stderr.readline()  # type: ignore[union-attr]
        return said.split()[-1]

    yield start
    for agent in running:
        agent.terminate()
        agent.communicate()


@pytest.fixture
def shell(tmp_path: Path) -> list[str]:
    """Returns a program that is called as ``ssh`` is, and runs everything on this machine."""
    path = tmp_path / "ssh"
    path.write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nshift 2\nexec sh -c "$*"\n')
    path.chmod(0o755)
    return [str(path)]


#: Variables that name files which a shell runs at its start, or folders of them.
_START_UP = ("BASH_ENV", "ENV", "ZDOTDIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME")


@pytest.fixture
def bare_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps the start-up files of the user who runs the tests out of login shells."""
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in _START_UP:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Executor]:
    """Yields an executor with two nodes of one worker each. The tests of a module share it; they must not damage it."""
    with Executor(nodes=LocalNodes(2, 1)) as executor:
        executor.submit(int).result()
        yield executor
