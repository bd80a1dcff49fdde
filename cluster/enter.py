"""Execution of a command on a machine of the cluster: ``python -I -S enter.py DOOR REPORT COMMAND...``.

The command has this process's environment, folder and standard streams, and this process ends as it does. REPORT is a
file descriptor that receives the command's process id as seen from here, or the reason why there is none; or it is a
dash.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import struct
import sys

#: Exit status of a shell that cannot reach the other machine.
_UNREACHABLE = 255


def ask(door: str, command: list[str]) -> tuple[socket.socket, int]:
    """Makes the door start the command. Returns the connection that reports the command's end, and its process id."""
    asker = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    asker.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    asker.connect(door)
    request = {"command": command, "environment": dict(os.environ), "folder": os.getcwd()}
    socket.send_fds(asker, [json.dumps(request).encode()], [0, 1, 2])
    text, more, _, _ = asker.recvmsg(1 << 12, socket.CMSG_SPACE(struct.calcsize("iII")))
    if text != b"started":
        raise OSError(text.decode() or "the machine went down")
    return asker, struct.unpack("iII", more[0][2])[0]


def end_as(status: int) -> None:
    """Ends this process as the command ended: with its exit status, or by its signal."""
    if status < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -status not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


def main(door: str, report: str, *command: str) -> None:
    """Runs the command to its end."""
    try:
        asker, process = ask(door, list(command))
        said = str(process)
    except OSError as error:
        said = f"{os.path.basename(door)}: {error}"
    if report != "-":
        os.write(int(report), said.encode())
        os.close(int(report))
    elif not said.isdigit():
        os.write(2, f"{said}\n".encode())
    if not said.isdigit():
        os._exit(_UNREACHABLE)
    # No answer comes if the whole machine is killed.
    end_as(int(asker.recv(64) or -signal.SIGKILL))


if __name__ == "__main__":
    main(*sys.argv[1:])
