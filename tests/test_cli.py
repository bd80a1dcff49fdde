"""The command of many commands: what becomes of it where nobody reads."""

from __future__ import annotations

import os
import subprocess
import sys


def test_a_reader_that_leaves_ends_it_without_a_word() -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        found = subprocess.run(
            [sys.executable, "-m", "gristmill._cli", "doctor"],
            stdout=write,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    finally:
        os.close(write)
    assert (found.returncode, found.stderr) == (141, "")
