"""What is ended by force leaves nothing behind in memory either."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

#: Has a semaphore with a name, and a child that was started with its tracker and would outlive it.
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
