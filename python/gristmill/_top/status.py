"""Reports of a running program about its executors: one answer a connection, over a socket in a folder of this user.

A program loads this module when it is asked for the first time.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import socket
import sys
import time

from gristmill import _serving
from gristmill._top import place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from gristmill._executor import Executor

#: The longest wait for a program's answer, and for all answers, seconds. Code that keeps the interpreter may delay an
#: answer.
_ANSWER_S, _ANSWERS_S = 2.0, 10.0
#: The longest answer, bytes: a node takes some 500 of them.
_ANSWER_MAX = 16 << 20
#: Keys of an answer.
_KEYS = frozenset(
    {"pid", "program", "executor", "workers", "is_local", "stats", "nodes", "failures", "contexts"}
)


def answer(connection: int) -> None:
    """Tells one client about the executors of this program, and closes the connection, which is a descriptor."""
    with socket.socket(fileno=connection) as asker, contextlib.suppress(OSError):
        asker.sendall(json.dumps([describe(one) for one in _serving.executors()]).encode())


def describe(executor: Executor) -> dict[str, Any]:
    """Returns the state of an executor, as an answer contains it."""
    return {
        "pid": os.getpid(),
        "program": " ".join(sys.argv) or "python",
        "executor": executor._number,
        "workers": executor._max_workers,
        "is_local": executor._placement is None,
        "stats": dataclasses.asdict(executor.stats()),
        "nodes": [dataclasses.asdict(node) for node in executor.nodes()],
        "failures": executor._node_failures(),
        "contexts": _contexts(executor),
    }


def _contexts(executor: Executor) -> list[dict[str, Any]]:
    """Returns the state of the executor's contexts; nothing if the program has made none."""
    module = sys.modules.get("gristmill._context.declare")
    # While another thread loads the module, no context exists.
    reports = getattr(module, "reports", lambda _executor: ())(executor)
    return [
        {"key": key, **report._asdict(), "holds": dataclasses.asdict(report.holds)}
        for key, report in reports
    ]


def ask_all() -> Iterator[dict[str, Any]]:
    """Asks every program of this user, and yields the answer about each of its executors.

    Programs that do not answer are left out. Sockets of programs that are gone are removed. Raises ``PermissionError``
    for a folder that is not this user's alone.
    """
    try:
        place.check_folder()
        names = place.names()
    except FileNotFoundError:
        return
    ends_at = time.monotonic() + _ANSWERS_S
    for name in names:
        path = os.path.join(place.folder(), name)
        try:
            yield from _ask(path, min(ends_at, time.monotonic() + _ANSWER_S))
        except ConnectionRefusedError:
            with contextlib.suppress(OSError):
                os.unlink(path)
        except (OSError, ValueError):
            continue


def _ask(path: str, ends_at: float) -> list[dict[str, Any]]:
    """Reads one answer. Raises ``OSError``, and ``ValueError`` for a malformed answer."""
    heard = bytearray()
    with socket.socket(socket.AF_UNIX) as asker:
        _set_timeout(asker, ends_at)
        asker.connect(path)
        while part := asker.recv(1 << 16):
            heard += part
            if len(heard) > _ANSWER_MAX:
                raise ValueError("the answer is too long")
            _set_timeout(asker, ends_at)
    answers = json.loads(heard)
    if not isinstance(answers, list):
        raise ValueError("the answer is malformed, or of another version")
    for one in answers:
        if not isinstance(one, dict) or not one.keys() >= _KEYS:
            raise ValueError("the answer is malformed, or of another version")
    return answers


def _set_timeout(asker: socket.socket, ends_at: float) -> None:
    left = ends_at - time.monotonic()
    if left <= 0:
        raise TimeoutError("the answer takes too long")
    asker.settimeout(left)
