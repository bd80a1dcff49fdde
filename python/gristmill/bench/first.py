"""The first process of a run in namespaces of its own: ``python -m gristmill.bench.first OUTSIDE COMMAND...``."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

from gristmill.bench.apart import MEMORY, OUTSIDE, space

#: For temporary files: they end with the run, however it ends, and the paths of sockets there are short.
_TEMPORARY = f"{MEMORY}/tmp"
#: The exit status where these are not the namespaces that they should be.
_REFUSED = 125


def main(words: list[str]) -> int:
    """Runs a command; gives its exit status, with which all that it has left ends."""
    outside, *command = words
    if os.getpid() != 1 or space() == outside:
        print("gristmill bench: this process is not the first of a namespace", file=sys.stderr)
        return _REFUSED
    _mount_memory()
    os.mkdir(_TEMPORARY)
    environment = os.environ | {OUTSIDE: outside, "TMPDIR": _TEMPORARY}
    program = subprocess.Popen(command, env=environment)
    while True:
        # Whoever has lost its parent is a child of the first process.
        ended, status = os.wait()
        if ended == program.pid:
            program.returncode = os.waitstatus_to_exitcode(status)
            return program.returncode if program.returncode >= 0 else 128 - program.returncode


def _mount_memory() -> None:
    """Gives the run files in memory of its own: processes that are killed remove none of theirs."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tmpfs", MEMORY.encode(), b"tmpfs", 0, b"mode=1777") != 0:
        raise OSError(ctypes.get_errno(), f"mount {MEMORY}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
