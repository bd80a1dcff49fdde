"""The inputs that an agent gets from the process that starts it: its key, and the leash that ends it."""

from __future__ import annotations

import math
import os
import select
import signal
import sys
import threading
import time

#: The environment variable with the nodes' key.
KEY_VARIABLE = "GRISTMILL_NODE_KEY"
#: The signal that makes an agent in its orderly end stop waiting. It is not a second SIGTERM: launchers pass on the
#: signals of their job, so that ranks get SIGTERM twice.
_HURRY = signal.SIGUSR2
#: The longest line with a key, bytes: a key has a hundred or two.
_LINE_MAX = 4096
#: The time limit for that line, seconds: the client sends it when it starts the agent's host.
_LINE_S = 30.0


def read_key(path: str | None) -> str:
    """Reads the key from a file, standard input (``-``) or the environment, and removes it from the environment.

    Raises ``ValueError`` if there is no key, or if other users can access its file; ``TimeoutError`` if standard input
    holds none in time.
    """
    handed = os.environ.pop(KEY_VARIABLE, None)
    if path is None:
        if handed is None:
            raise ValueError(f"name the nodes' key with --key FILE, or set ${KEY_VARIABLE}")
        return handed
    if path == "-":
        return _read_line()
    try:
        if os.stat(path).st_mode & 0o077:
            raise ValueError(f"{path} can be read or written by other users: chmod 600 {path}")
        with open(path) as file:
            return file.read().strip()
    except OSError as error:
        raise ValueError(f"the key cannot be read: {error}") from error


def _read_line() -> str:
    """Reads one line of standard input, and nothing after it. A person at a terminal may take any time."""
    line = b""
    limit_at = math.inf if os.isatty(0) else time.monotonic() + _LINE_S
    while not line.endswith(b"\n") and len(line) < _LINE_MAX:
        patience_s = None if limit_at == math.inf else max(0.0, limit_at - time.monotonic())
        if not select.select([0], [], [], patience_s)[0]:
            raise TimeoutError(
                f"no key has come on standard input within {_LINE_S:g} s. Has a command that ran before the agent "
                "read it, such as one of a start-up file of the login shell?"
            )
        byte = os.read(0, 1)
        if not byte:
            break
        line += byte
    if not line.strip():
        raise ValueError("standard input ended before the key")
    return line.decode().strip()


def write_key(path: str, key: str) -> None:
    """Writes the key into a new file that only its owner can read."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(file, "w") as opened:
        opened.write(key + "\n")


def end_with_input(patience_s: float | None = None) -> None:
    """Ends this process in order when its standard input ends, which its starter holds open.

    :param patience_s: the time after which the process stops waiting for its tasks, seconds; ``None`` for no limit.
    """
    is_over = threading.Event()

    def hurry(_number: int, _frame: object) -> None:
        if is_over.is_set():  # batch systems send this signal to every process as a warning
            sys.exit(0)

    if patience_s is not None:
        signal.signal(_HURRY, hurry)

    def wait() -> None:
        while os.read(0, 4096):
            pass
        _end()
        if patience_s is not None:
            time.sleep(patience_s)
            is_over.set()
            os.kill(os.getpid(), _HURRY)

    threading.Thread(target=wait, daemon=True).start()


def _end() -> None:
    os.kill(os.getpid(), signal.SIGTERM)
