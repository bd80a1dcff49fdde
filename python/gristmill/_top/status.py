"""What a running program tells whoever asks: one answer a connection, over a socket in a folder of this user."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import stat
import sys
import tempfile
import threading
import time
import weakref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from gristmill._executor import Executor

#: Longest wait for a program's answer, and for all of them, seconds: one may be held up by code that keeps the
#: interpreter.
_ANSWER_S, _ANSWERS_S = 2.0, 10.0
#: The longest answer, bytes: a node takes some 500 of them.
_ANSWER_MAX = 16 << 20
#: What an answer has.
_KEYS = frozenset({"pid", "program", "executor", "stats", "nodes", "troubles", "contexts"})


def folder() -> str:
    """The folder with the sockets, which only this user can enter."""
    place = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
    return os.path.join(place, f"gristmill-{os.getuid()}")


def check_folder() -> None:
    """Raises ``PermissionError`` for a folder that others could put something into, ``OSError`` if there is none."""
    facts = os.lstat(folder())
    if not stat.S_ISDIR(facts.st_mode):
        why = "is no folder"
    elif facts.st_uid != os.getuid():
        why = f"belongs to user {facts.st_uid}"
    elif facts.st_mode & 0o077:
        why = "can be entered by others"
    else:
        return
    raise PermissionError(
        f"{folder()} {why}: nothing in it is believed; remove it, or set XDG_RUNTIME_DIR to a folder of your own"
    )


def serve(executor: Executor) -> None:
    """Answers until the executor is gone or shut down; where that cannot be done nobody can ask, and nothing else."""
    with contextlib.suppress(OSError):
        os.makedirs(folder(), mode=0o700, exist_ok=True)
        check_folder()
        path = os.path.join(folder(), f"{os.getpid()}.{executor._number}")
        listener = socket.socket(socket.AF_UNIX)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        listener.bind(path)
        listener.listen()
        threading.Thread(
            target=_answer_all,
            args=(weakref.ref(executor, _closing(listener)), listener, path),
            name="gristmill-status",
            daemon=True,
        ).start()


def _closing(listener: socket.socket) -> Callable[[object], None]:
    """What closes the listener when the executor is gone: also at the interpreter's end, which takes modules first."""
    shutdown, how = listener.shutdown, socket.SHUT_RDWR

    def close(_: object) -> None:
        try:  # noqa: SIM105, the module that suppresses may be gone
            shutdown(how)
        except OSError:
            pass

    return close


def _answer_all(reference: weakref.ref[Executor], listener: socket.socket, path: str) -> None:
    with contextlib.suppress(OSError), listener:
        while _answer(reference, listener.accept()[0]):
            pass
    with contextlib.suppress(OSError):
        os.unlink(path)


def _answer(reference: weakref.ref[Executor], asker: socket.socket) -> bool:
    with asker:
        executor = reference()
        if executor is None or executor._is_shut_down:
            return False
        with contextlib.suppress(OSError):
            asker.sendall(json.dumps(describe(executor)).encode())
    return True


def describe(executor: Executor) -> dict[str, Any]:
    """What is told."""
    return {
        "pid": os.getpid(),
        "program": " ".join(sys.argv) or "python",
        "executor": executor._number,
        "stats": executor.stats(),
        "nodes": executor._nodes(),
        "troubles": executor._node_troubles(),
        "contexts": _contexts(executor),
    }


def _contexts(executor: Executor) -> list[dict[str, Any]]:
    """What is held by the executor's contexts; none where the program has made none."""
    module = sys.modules.get("gristmill._context.declare")
    reports = () if module is None else module.reports(executor)
    return [{"key": key, **report._asdict()} for key, report in reports]


def ask_all() -> Iterator[dict[str, Any]]:
    """Asks every program of this user; those that do not answer are left out, those that are gone forgotten.

    Raises ``PermissionError`` for a folder that is not this user's alone.
    """
    try:
        check_folder()
        names = sorted(os.listdir(folder()))
    except FileNotFoundError:
        return
    ends_at = time.monotonic() + _ANSWERS_S
    for name in names:
        path = os.path.join(folder(), name)
        try:
            yield _ask(path, min(ends_at, time.monotonic() + _ANSWER_S))
        except ConnectionRefusedError:
            with contextlib.suppress(OSError):
                os.unlink(path)
        except (OSError, ValueError):
            continue


def _ask(path: str, ends_at: float) -> dict[str, Any]:
    """Reads one answer. Raises ``OSError``, and ``ValueError`` for what is none."""
    heard = bytearray()
    with socket.socket(socket.AF_UNIX) as asker:
        _set_timeout(asker, ends_at)
        asker.connect(path)
        while part := asker.recv(1 << 16):
            heard += part
            if len(heard) > _ANSWER_MAX:
                raise ValueError("the answer is too long")
            _set_timeout(asker, ends_at)
    answer: dict[str, Any] = json.loads(heard)
    if not isinstance(answer, dict) or not answer.keys() >= _KEYS:
        raise ValueError("this is no answer, or one of another version")
    return answer


def _set_timeout(asker: socket.socket, ends_at: float) -> None:
    left = ends_at - time.monotonic()
    if left <= 0:
        raise TimeoutError("the answer takes too long")
    asker.settimeout(left)
