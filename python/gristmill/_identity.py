"""Identity of a worker in ``multiprocessing`` and ``logging``: its name, its parent, and the program's key.

Many programs and few tasks load these modules, so a worker sets its identity when they are loaded.
"""

from __future__ import annotations

import os
import sys

from gristmill import _shared_tracker
from gristmill._when_imported import when_imported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

_PROCESS = "multiprocessing.process"
#: The standard library's name for a process that is no child.
_MAIN = "MainProcess"

#: The authentication key that was drawn for ``multiprocessing`` before the program loaded it, by the name of the module
#: that takes it over. Empty until a key is drawn.
_drawn: dict[str, bytes] = {}


def key_of_program() -> bytes:
    """Returns the authentication key of ``multiprocessing``, which its managers and connections check.

    If ``multiprocessing`` is not loaded, the key is drawn here, and ``multiprocessing`` takes it over when it is
    loaded.
    """
    process = sys.modules.get(_PROCESS)
    current = getattr(process, "current_process", None)
    if current is not None:
        return bytes(current().authkey)
    # If two threads submit their first tasks at once, each may draw a key: the first one counts.
    if _PROCESS not in _drawn:
        _drawn.setdefault(_PROCESS, os.urandom(32))
        when_imported(_PROCESS, _take_key)
    return _drawn[_PROCESS]


def _take_key(process: ModuleType) -> None:
    process.current_process().authkey = _drawn[_PROCESS]


def adopt(key: bytes) -> None:
    """Makes this worker a child process of the program for ``multiprocessing`` and ``logging``."""
    slot, epoch = os.environ["GRISTMILL_WORKER"].split(".")[:2]
    name = f"GristmillWorker-{slot}.{epoch}"
    if "GRISTMILL_NODE" in os.environ:
        name += f"@{os.uname().nodename}.{os.environ['GRISTMILL_KEEPER']}"
    when_imported(_PROCESS, lambda process: _be_child(process, name, (int(slot) + 1,), key))
    when_imported(_shared_tracker.MODULE, lambda module: _shared_tracker.share(module, _parent()))
    when_imported(_shared_tracker.STARTER, _shared_tracker.keep)
    when_imported("logging", lambda logging: _name_records(logging, name))


def _be_child(process: Any, name: str, identity: tuple[int, ...], key: bytes) -> None:
    """Replaces the main process that ``multiprocessing`` assumes in every new interpreter by a child process."""
    main = process.current_process()
    parent = _parent()
    own = process.BaseProcess.__new__(process.BaseProcess)
    own.__dict__.update(
        main.__dict__,
        _identity=identity,
        _name=name,
        _parent_pid=parent,
        _parent_name=_MAIN,
        _config={**main._config, "authkey": process.AuthenticationString(key)},
        _target=None,
        _args=(),
        _kwargs={},
    )
    process._current_process = own
    try:
        process._parent_process = process._ParentProcess(_MAIN, parent, os.pidfd_open(parent))
    except OSError:  # the parent ends just now, and this process with it
        process._parent_process = process._ParentProcess(
            _MAIN, parent, os.open(os.devnull, os.O_RDONLY)
        )


def _parent() -> int:
    """Returns the process id of the keeper's parent: the program, or on a node its agent."""
    with open(f"/proc/{os.environ['GRISTMILL_KEEPER']}/stat", "rb") as stat:
        return int(stat.read().rpartition(b")")[2].split()[1])


def _name_records(logging: Any, name: str) -> None:
    """Gives log records the worker's name even if ``multiprocessing``, which supplies it, is not loaded."""
    make = logging.getLogRecordFactory()

    def record(*args: Any, **kwargs: Any) -> Any:
        made = make(*args, **kwargs)
        if made.processName == _MAIN:
            made.processName = name
        return made

    logging.setLogRecordFactory(record)
