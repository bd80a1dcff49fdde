"""Observer in a Python process and in all processes that it starts; loaded before any code of the program.

It writes each module that is searched for and each file that is opened as a line of one log, once per process. It
writes the line immediately, because workers may be killed at any time. The observer raises and prints nothing, so the
program runs as usual. The next ``sitecustomize`` on the path, if any, runs after this one.
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
#: Suffixes of files that are logged as imports instead.
_CODE = (".py", ".pyc", ".pth")
_told: set[tuple[str, str]] = set()
#: Threads that are writing to the log. Files that they open meanwhile are not the program's.
_telling: set[int] = set()


class _Imports:
    """A finder that is asked first for each module and finds none."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        """Logs the module."""
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
    """Returns whether a file opened with this mode is created, truncated, or only written."""
    if isinstance(mode, str) and mode[:1] in ("w", "a", "x"):
        return True
    flags = flags if isinstance(flags, int) else 0
    return bool(flags & (os.O_TRUNC | os.O_CREAT)) or flags & os.O_ACCMODE == os.O_WRONLY


def _tell_file(how: str, path: Any) -> None:
    if not isinstance(path, int):  # an integer is a descriptor; its opening was logged
        name = os.fsdecode(path)
        if not name.endswith(_CODE):
            _tell(how, os.path.abspath(name))


def _tell(how: str, what: str) -> None:
    """Appends a line to the log. The log is opened by name each time: the program might close a kept descriptor."""
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
    """Runs the ``sitecustomize`` that would have run without this one."""
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != _FOLDER]
    this = sys.modules.pop("sitecustomize", None)
    try:
        __import__("sitecustomize")
    except ModuleNotFoundError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        if this is not None:
            # Code that imports this module expects an entry in ``sys.modules`` under its name.
            sys.modules.setdefault("sitecustomize", this)


if _LOG:
    sys.addaudithook(_hear)
    sys.meta_path.insert(0, _Imports)
_run_next()
