"""Processes that are ended by force leave nothing behind in memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

#: A program with a named semaphore, and with a child that would outlive it.
HOLDS = """
import multiprocessing, sys, time

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    lock = context.Lock()
    context.Process(target=time.sleep, args=(3600,)).start()
    with open(sys.argv[1], "w") as file:
        file.write(lock._semlock.name)
    time.sleep(3600)
"""


def test_semaphores_go_with_what_is_ended(tmp_path: Path) -> None:
    told = tmp_path / "told"
    os.mkfifo(told)
    (tmp_path / "holds.py").write_text(HOLDS)
    inner = [sys.executable, str(tmp_path / "holds.py"), str(told)]
    words = ["0", str(tmp_path / "log"), "", *inner]
    with subprocess.Popen([sys.executable, "-m", "gristmill._descent", *words]) as between:
        name = told.read_text()
        between.send_signal(signal.SIGTERM)
    assert name.startswith("/mp-"), "it had one"
    assert not Path(f"/dev/shm/sem.{name[1:]}").exists()


#: A program that makes a file in memory, prints its name, and stays alive.
FILLS = """
import os, sys, time
from pathlib import Path

made = Path(os.environ["GRISTMILL_MEMORY_FOLDER"], "folder", "file")
made.parent.mkdir()
made.write_bytes(bytes(1_000))
with open(sys.argv[1], "w") as file:
    file.write(str(made))
time.sleep(3600)
"""


def test_files_in_memory_go_with_what_is_ended(tmp_path: Path) -> None:
    told = tmp_path / "told"
    os.mkfifo(told)
    inner = [sys.executable, "-c", FILLS, str(told)]
    words = ["0", str(tmp_path / "log"), "", *inner]
    with subprocess.Popen([sys.executable, "-m", "gristmill._descent", *words]) as between:
        made = Path(told.read_text())
        assert made.is_relative_to("/dev/shm")
        between.send_signal(signal.SIGTERM)
    assert not made.parent.parent.exists()
