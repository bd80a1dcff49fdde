"""``gristmill top`` shows what programs with nodes do, and ends with nothing to show."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gristmill import Executor
from gristmill._nodes.local import LocalNodes

import calls
from stage import Gate

TOP = [sys.executable, "-m", "gristmill._cli", "top", "--once", "--interval", "0.1"]


def look() -> str:
    return subprocess.run(TOP, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path


def test_top_shows_nodes_and_what_they_have(
    own_folder: Path, make_nodes: Callable[..., tuple[Executor, LocalNodes]], gate: Gate
) -> None:
    executor, _ = make_nodes(1, 1)
    held = executor.submit(calls.enter, gate.path)
    gate.wait_entered()
    said = look()
    assert f"process {os.getpid()}" in said
    assert "outstanding 1: ready 0, with workers 1" in said
    assert "local0" in said
    assert "connected" in said
    gate.open()
    held.result()
    executor.shutdown()
    assert look() == "no program of this user has nodes now\n"


def test_a_socket_that_a_killed_program_left_is_forgotten(own_folder: Path) -> None:
    program = "import os; from gristmill import Executor, on; e = Executor(nodes=on.local(1)); e.submit(int).result(); os.kill(os.getpid(), 9)"
    subprocess.run([sys.executable, "-c", program], check=False)
    (folder,) = own_folder.iterdir()
    assert len(list(folder.iterdir())) == 1
    assert look() == "no program of this user has nodes now\n"
    assert not list(folder.iterdir())
    assert folder.stat().st_mode & 0o777 == 0o700
