"""The first process of a machine: it prepares the machine, then runs commands requested at its door, a Unix socket.

``python -I -S door.py PLAN`` runs in new namespaces. PLAN is JSON: ``name``, ``shared`` (the cluster's folder) and
``visible`` (folders below /tmp or /dev/shm that stay as they are outside). Once the door is open, the process prints
its process id as seen from outside, or else the reason why it cannot be. When its standard input ends, because the
maker of the cluster is gone, the process ends, and the kernel kills everything else on the machine with it.

A request is one message: JSON with ``command``, ``environment`` and ``folder``, and the three standard streams. The
first answer carries the process id as credentials, which the kernel translates for the reader, or says why the command
cannot be run. The second answer is the exit status. If the client goes away before that, the command is killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

#: The largest request with arguments and environment, bytes: more than a socket sends in one message.
REQUEST_MAX = 1 << 18


def settle(name: str, shared: Path, visible: list[str]) -> None:
    """Gives the machine its name, its view of processes and its own temporary folders."""
    socket.sethostname(name)
    _mount("-t", "proc", "proc", "/proc")
    for folder in ("/tmp", "/dev/shm"):
        staging = shared / "staging"
        _mount("-t", "tmpfs", "tmpfs", str(staging))
        for path in visible:
            if path.startswith(f"{folder}/"):
                place = staging / path.removeprefix(f"{folder}/")
                place.mkdir(parents=True, exist_ok=True)
                _mount("--rbind", path, str(place))
        staging.chmod(0o1777)
        _mount("--move", str(staging), folder)


def _mount(*arguments: str) -> None:
    done = subprocess.run(["mount", "--no-mtab", *arguments], capture_output=True, text=True)
    if done.returncode:
        raise OSError(done.stderr.strip())


class Door:
    """Server of a machine that takes requests, starts their commands and reports how they ended."""

    def __init__(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(str(path))
        self._listener.listen(64)
        self._ended, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self._running: dict[int, tuple[subprocess.Popen[bytes], socket.socket]] = {}

    def serve(self) -> None:
        """Serves until the standard input ends."""
        with selectors.DefaultSelector() as ready:
            for source in (sys.stdin, self._listener, self._ended):
                ready.register(source, selectors.EVENT_READ)
            while True:
                for key, _ in ready.select():
                    if key.fileobj is sys.stdin:
                        return
                    if key.fileobj is self._listener:
                        ready.register(self._listener.accept()[0], selectors.EVENT_READ)
                    elif key.fileobj == self._ended:
                        os.read(self._ended, 4096)
                    elif isinstance(key.fileobj, socket.socket):
                        ready.unregister(key.fileobj)
                        if self._hear(key.fileobj):
                            ready.register(key.fileobj, selectors.EVENT_READ)
                self._reap(ready)

    def _hear(self, asker: socket.socket) -> bool:
        """Takes a request, or notices that its client has gone. Returns whether to go on listening."""
        try:
            text, streams, _, _ = socket.recv_fds(asker, REQUEST_MAX, 3)
        except OSError:
            text, streams = b"", []
        if text:
            return self._start(asker, json.loads(text), streams)
        for process, of in self._running.values():
            if of is asker:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        asker.close()
        return False

    def _start(self, asker: socket.socket, request: Any, streams: list[int]) -> bool:
        try:
            process = subprocess.Popen(
                request["command"],
                env=request["environment"],
                cwd=request["folder"],
                stdin=streams[0],
                stdout=streams[1],
                stderr=streams[2],
                start_new_session=True,
            )
        except OSError as error:
            _say(asker, str(error))
            asker.close()
            return False
        finally:
            for stream in streams:
                os.close(stream)
        who = struct.pack("iII", process.pid, os.getuid(), os.getgid())
        self._running[process.pid] = process, asker
        _say(asker, "started", [(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, who)])
        return True

    def _reap(self, ready: selectors.BaseSelector) -> None:
        """Reaps every process that has ended, also those that no client started. Reports the exit status to clients."""
        while True:
            try:
                child, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not child:
                return
            if child in self._running:
                process, asker = self._running.pop(child)
                process.returncode = os.waitstatus_to_exitcode(status)
                if asker.fileno() >= 0:
                    ready.unregister(asker)
                    _say(asker, str(process.returncode))
                    asker.close()


def _say(asker: socket.socket, text: str, more: list[tuple[int, int, bytes]] | None = None) -> None:
    """Sends an answer if its reader is still there."""
    with contextlib.suppress(OSError):
        asker.sendmsg([text.encode()], more or [])


def main() -> None:
    """Prepares the machine and serves its door."""
    outside = os.readlink("/proc/self")
    plan = json.loads(sys.argv[1])
    shared = Path(plan["shared"])
    try:
        settle(plan["name"], shared, plan["visible"])
        door = Door(shared / "doors" / plan["name"])
    except OSError as error:
        sys.exit(print(error))
    print(outside, flush=True)
    door.serve()


if __name__ == "__main__":
    main()
