"""The function or module that this process loads now, for ``explain()`` and for errors after the process's death.

A worker records it beside its rings. A process without a slot, which is a zygote or the child of a call, records it in
a file that it was given. Only imports and loads are recorded, not the calls of a loaded function.
"""

from __future__ import annotations

import os
import sys

from gristmill import _native
from gristmill._interrupt import TaskInterrupted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

#: Bytes of the file of a process without a slot, which the reader reads at once: the text, then zeros.
NOTE_SIZE = 256

#: Modules whose import has begun within the current load, the outermost first. Some imports may have ended since.
_begun: list[str] = []
#: Descriptor of the file in which this process records what it loads, if it has no slot.
_file: int | None = None
#: Descriptions of what such a process loads, the innermost last.
_texts: list[str] = []
#: Generation of the process that has the file. User code forked a process of another generation from it.
_generation = 0


class Load:
    """Block that loads ``what``. An exception that leaves the block gets a note that says what was being loaded."""

    def __init__(self, what: str, purpose: str) -> None:
        self._what = what
        self._purpose = purpose
        self._outer: tuple[list[str], Load] | None = None

    def __enter__(self) -> None:
        global _begun, _load
        self._outer = (_begun, _load)
        _begun, _load = [], self
        _begin(self._what)

    def __exit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        global _begun, _load
        text = self._raised_while(_still_importing())
        assert self._outer is not None, "it was entered"
        _begun, _load = self._outer
        _end(error is not None)
        if error is not None and text:
            try:
                error.add_note(f"raised while {text}")
            except Exception:  # an exception that takes no notes arrives without one
                return

    def _raised_while(self, modules: list[str]) -> str:
        return self.text(modules)

    def text(self, modules: list[str]) -> str:
        """Describes what is being loaded, with modules whose import has begun, the outermost first."""
        if not modules:
            return self._what
        last = f", whose last import was {modules[-1]}," if len(modules) > 1 else ""
        return f"importing module {modules[0]}{last} {self._purpose}"


class Run(Load):
    """Block that runs user code before any task, or in a child of a task, and may go on long after its imports.

    The text therefore names a module as the last import: a later reader cannot know whether that import has ended.
    """

    def __init__(self, what: str, is_silent: bool = False) -> None:
        super().__init__("" if is_silent else what, "")
        self._name = what

    def _raised_while(self, modules: list[str]) -> str:
        # The caller that runs it reports it.
        return self.text(modules) if modules else ""

    def text(self, modules: list[str]) -> str:
        """Describes what runs, with modules whose import has begun, the outermost first."""
        if not modules:
            return self._what
        outer = f" by way of {modules[0]}" if len(modules) > 1 else ""
        return f"{self._name}, whose last import was {modules[-1]}{outer}"


#: The current load.
_load = Load("", "to read an argument of the task")


class Finder:
    """Finder that finds nothing and records each module sought during a load; the first of ``sys.meta_path``."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """Records a module."""
        if _native.is_loading() if _file is None else _has_file() and _texts:
            # A module that is missing now could not be imported, and its importer went on without it.
            _begun[:] = [one for one in _still_importing() if one in sys.modules] + [name]
            _go_on(_load.text(_begun))


def watch() -> None:
    """Records imports of this process from now on."""
    if Finder not in sys.meta_path:
        sys.meta_path.insert(0, Finder)


def note_in(descriptor: int) -> None:
    """Makes this process, which has no slot, record its loads in a file. Programs that it starts do not inherit it."""
    global _file, _generation
    os.set_inheritable(descriptor, False)
    _file, _generation = descriptor, _native.generation()
    _texts.clear()
    watch()


def stop_noting() -> None:
    """Closes that file: this process is ready, and the processes that it forks have slots of their own."""
    global _file
    if _file is not None:
        os.close(_file)
        _file = None


class ChildNote:
    """File in which a child process of this one records what it loads."""

    def __init__(self) -> None:
        self.descriptor = os.memfd_create("gristmill-loading")

    def read(self) -> str:
        """Returns what the child loads, or was loading when it ended; empty if nothing."""
        text = os.pread(self.descriptor, NOTE_SIZE, 0).rstrip(b"\0")
        return text.decode(errors="replace")

    def doing(self) -> str:
        """Returns the text of ``read`` as the end of a sentence."""
        text = self.read()
        return f" while {text}" if text else ""

    def __enter__(self) -> ChildNote:
        return self

    def __exit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        # An interrupt that ends the call here reports what the child was loading.
        if isinstance(error, TaskInterrupted) and (text := self.read()):
            _native.loading_begin(text)
            _native.loading_end(True)
        os.close(self.descriptor)


def _begin(text: str) -> None:
    if _file is None:
        _native.loading_begin(text)
    else:
        _texts.append(text)
        _write(text)


def _go_on(text: str) -> None:
    if _file is None:
        _native.loading_goes_on(text)
    else:
        _texts[-1] = text
        _write(text)


def _end(has_failed: bool) -> None:
    if _file is None:
        _native.loading_end(has_failed)
    elif _texts:
        _texts.pop()
        _write(_texts[-1] if _texts else "")


def _has_file() -> bool:
    return _generation == _native.generation()


def _write(text: str) -> None:
    """Replaces the text in the file of this process. Does nothing if user code has closed the file."""
    if _file is None or not _has_file():
        return
    data = text.encode(errors="replace")[:NOTE_SIZE].ljust(NOTE_SIZE, b"\0")
    try:
        os.pwrite(_file, data, 0)
    except OSError:
        return


def _still_importing() -> list[str]:
    """Returns the modules of the current load whose import has not ended."""
    return [name for name in _begun if _is_importing(name)]


def _is_importing(name: str) -> bool:
    """Returns whether a module is not loaded yet, for example because its import failed."""
    spec = getattr(sys.modules.get(name), "__spec__", None)
    return name not in sys.modules or getattr(spec, "_initializing", False)
