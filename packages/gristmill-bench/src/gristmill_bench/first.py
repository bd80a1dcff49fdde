"""The first process of a run in namespaces of its own: ``python -m gristmill_bench.first OUTSIDE COMMAND...``."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

from gristmill_bench.apart import MEMORY, OUTSIDE, space

#: The folder of temporary files: it disappears with the run, however the run ends, and socket paths in it are short.
_TEMPORARY = f"{MEMORY}/tmp"
#: The exit status if this process is not the first of a new namespace.
_REFUSED = 125


def main(words: list[str]) -> int:
    """Runs a command; returns its exit status. All processes that it leaves behind end with this process."""
    outside, *command = words
    if os.getpid() != 1 or space() == outside:
        print("gristmill bench: this process is not the first of a namespace", file=sys.stderr)
        return _REFUSED
    _mount_memory()
    os.mkdir(_TEMPORARY)
    environment = os.environ | {OUTSIDE: outside, "TMPDIR": _TEMPORARY}
    program = subprocess.Popen(command, env=environment)
    while True:
        # A process that loses its parent becomes a child of the first process.
        ended, status = os.wait()
        if ended == program.pid:
            program.returncode = os.waitstatus_to_exitcode(status)
            return program.returncode if program.returncode >= 0 else 128 - program.returncode


def _mount_memory() -> None:
    """Mounts files in memory that only the run has: killed processes do not remove their own."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tmpfs", MEMORY.encode(), b"tmpfs", 0, b"mode=1777") != 0:
        raise OSError(ctypes.get_errno(), f"mount {MEMORY}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
