"""Runs in a Python process that is observed, and in all that it starts, before anything of the program's.

Each module that is looked for and each file that is opened becomes a line of one file, once for each process and as
soon as it happens, since workers may be killed at any time. Nothing here raises or prints: the program runs as it
always does. The next ``sitecustomize`` on the path, if any, runs after this one.
"""

from __future__ import annotations

import _thread
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_LOG = os.environ.get("GRISTMILL_OBSERVED", "")
_EVENTS = {"open", "sqlite3.connect", "os.rename"}
#: Of these the import is told.
_CODE = (".py", ".pyc", ".pth")
_told: set[tuple[str, str]] = set()
#: Threads that tell something: what they do meanwhile is not the program's.
_telling: set[int] = set()


class _Imports:
    """Is asked first for each module, and finds none."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        """Tells of the module."""
        _tell("module", name)


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in _EVENTS or _thread.get_ident() in _telling:
        return
    try:
        if event == "open":
            path, mode, flags = arguments
            _tell_file("written" if _writes(mode, flags) else "read", path)
        elif event == "os.rename":
            _tell_file("written", arguments[1])
        else:
            _tell_file("read", arguments[0])
    except Exception:
        return


def _writes(mode: Any, flags: Any) -> bool:
    """Whether a file that is opened so is begun anew, or only written."""
    if isinstance(mode, str) and mode[:1] in ("w", "a", "x"):
        return True
    flags = flags if isinstance(flags, int) else 0
    return bool(flags & (os.O_TRUNC | os.O_CREAT)) or flags & os.O_ACCMODE == os.O_WRONLY


def _tell_file(how: str, path: Any) -> None:
    if not isinstance(path, int):  # a descriptor, whose opening was told
        name = os.fsdecode(path)
        if not name.endswith(_CODE):
            _tell(how, os.path.abspath(name))


def _tell(how: str, what: str) -> None:
    """Appends a line, to the file by its name: nobody can have closed that, or put another in its place."""
    if (how, what) in _told:
        return
    _told.add((how, what))
    thread = _thread.get_ident()
    _telling.add(thread)
    try:
        line = f"{how} {what!a}\n".encode()
        descriptor = os.open(_LOG, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)
    except Exception:
        return
    finally:
        _telling.discard(thread)


def _run_next() -> None:
    """Runs the module of this name that would have run without this one."""
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != _FOLDER]
    this = sys.modules.pop("sitecustomize", None)
    try:
        __import__("sitecustomize")
    except ModuleNotFoundError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        if this is not None:
            # Whoever imports this module expects to find one under its name.
            sys.modules.setdefault("sitecustomize", this)


if _LOG:
    sys.addaudithook(_hear)
    sys.meta_path.insert(0, _Imports)
_run_next()
