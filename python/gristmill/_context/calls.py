"""Calls in processes of their own: in a fork of the worker, or in an interpreter that sets everything up anew."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import traceback
from typing import TYPE_CHECKING, Any

from gristmill import _functions, _native, _pickling, _remote, _unpickling, _world
from gristmill._context import folders
from gristmill._errors import ContextError, WorkerLost
from gristmill._held_interrupts import HeldInterrupts

if TYPE_CHECKING:
    from collections.abc import Callable

#: What a child that calls one function is told to do; its argument is the folder that this package is in.
_BOOTSTRAP = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from gristmill._context import calls; calls.main()"
)
#: The first byte of what a child gives back.
_RETURNED, _RAISED = b"+", b"-"
#: What comes before that from a child that sets a context up: whether it has.
_SET_UP, _NOT_SET_UP = b".", b"!"


def way(
    anew: Anew | None, is_forked: bool, own_folder: bool
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """What the functions of a context are made, so that their calls run as it says."""

    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        if anew is not None:
            function = anew(function)
        elif is_forked:
            function = Forked(function)
        return InFolder(function) if own_folder else function

    return wrap


class InFolder:
    """A function whose calls each have an empty working directory."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls it there; removes the folder, with all that is in it."""
        before = os.getcwd()
        folder = folders.make()
        try:
            os.chdir(folder)
            return self._function(*args, **kwargs)
        finally:
            os.chdir(before)
            folders.remove(folder)


class Forked:
    """A function whose calls run in forks of this process, which they cannot change."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls it in a child; raises what it raises there, and ``WorkerLost`` if the child dies."""
        reader, writer = os.pipe()
        _flush()
        interrupts = HeldInterrupts()
        try:
            child = os.fork()
        except BaseException:
            interrupts.release()
            raise
        if child == 0:
            _be_child(self._function, args, kwargs, writer)
        try:
            os.close(writer)
            interrupts.release()
            answer = _read_all(reader, child)
        except BaseException:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise
        finally:
            os.close(reader)
        _, status = os.waitpid(child, 0)
        return _result(answer, os.waitstatus_to_exitcode(status), "the forked child of the call")


def _be_child(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], writer: int
) -> None:
    """Calls the function, writes what came of it, and ends this process."""
    code = 1
    try:
        # Whoever interrupts the worker kills its child.
        signal.signal(_native.INTERRUPT_SIGNAL, signal.SIG_DFL)
        with open(writer, "wb") as file:
            file.write(_answer(function, args, kwargs))
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        _flush()
        os._exit(code)


class Anew:
    """Makes functions whose calls each run in a new interpreter, which sets up the context first."""

    def __init__(self, name: str, description: bytes, world: bytes) -> None:
        self._name = name
        self._told = (world, description)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wraps a function."""
        definition = _functions.definition(function)
        return lambda *args, **kwargs: self._call(definition, args, kwargs)

    def _call(self, definition: bytes, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        message = _world.dump((*self._told, definition, _pickling.dump_value((args, kwargs))))
        reader, writer = os.pipe()
        command = [sys.executable, "-c", _BOOTSTRAP, _world.package_parent(), str(writer)]
        interrupts = HeldInterrupts()
        try:
            started = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=(writer,))
        except BaseException:
            interrupts.release()
            raise
        with started as child:
            try:
                os.close(writer)
                interrupts.release()
                assert child.stdin is not None, "it was asked for"
                with child.stdin as pipe:
                    pipe.write(message)
                answer = _read_all(reader, child.pid)
            except BrokenPipeError:
                answer = b""
            except BaseException:
                child.kill()
                raise
            finally:
                os.close(reader)
        if answer[:1] != _SET_UP:
            raise ContextError(_why_not_set_up(self._name, answer, child.returncode))
        return _result(answer[1:], child.returncode, f"the process of the call in {self._name!r}")


def main() -> None:
    """Sets a context up, calls one function, and writes what came of each: what ``Anew`` starts."""
    from gristmill._context import held

    writer = int(sys.argv[2])
    world, description, definition, pickled = _world.load(sys.stdin.buffer.read())
    _world.enter(world, held.has_packages(description))

    def call() -> Any:
        args, kwargs = _unpickling.load(pickled, {})
        return _functions.load(definition)(*args, **kwargs)

    with open(writer, "wb") as file:
        try:
            held.set_up(_as_memory(description), world, file)
        except BaseException:
            file.write(_NOT_SET_UP + traceback.format_exc().encode(errors="backslashreplace"))
            return
        file.write(_SET_UP)
        file.flush()
        file.write(_answer(call, (), {}))
    try:
        held.tear_down()
    except BaseException:
        sys.excepthook(*sys.exc_info())


def _as_memory(description: bytes) -> bytes:
    """The description of the same context, kept in memory: in this process, which is there for one call."""
    from gristmill._context import held

    key, told = held.read(description)
    return held.write(key, {**told, "mode": "direct", "reuse": "memory", "own_folder": False})


def _answer(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
    try:
        return _RETURNED + _pickling.dump_value(function(*args, **kwargs))
    except BaseException as error:
        return _RAISED + _remote.dump_exception(error)


def _result(answer: bytes, code: int, who: str) -> Any:
    """What a child has given back."""
    if answer[:1] == _RETURNED:
        return _unpickling.load(answer[1:], {})
    if answer[:1] == _RAISED:
        raise _remote.load_exception(answer[1:])
    raise WorkerLost(f"before {who} had returned it ended {_how(code)}")


def _why_not_set_up(name: str, answer: bytes, code: int) -> str:
    """Why the process of a call has not come to the call."""
    words = answer.removeprefix(_NOT_SET_UP).decode(errors="backslashreplace")
    if answer[:1] == _NOT_SET_UP:
        why = f"the setup of context {name!r} failed"
    elif code == -_native.SETUP_ALARM:
        why = f"the setup of context {name!r} did not return in time and was stopped"
    else:
        why = f"the process that was to set up context {name!r} ended {_how(code)}"
    return f"{why}:\n{words}" if words else why


def _how(code: int) -> str:
    """How a process ended, from its exit code."""
    if code >= 0:
        return f"with exit code {code}"
    perhaps = ", perhaps for want of memory" if code == -signal.SIGKILL else ""
    names = {one.value: one.name for one in signal.Signals}
    return f"by signal {-code} ({names.get(-code, 'an unnamed signal')}){perhaps}"


def _read_all(descriptor: int, writer: int) -> bytes:
    """What a child writes until it ends: children of its own may keep the descriptor for longer."""
    parts = []
    process = os.pidfd_open(writer)
    try:
        waiting = select.poll()
        waiting.register(descriptor, select.POLLIN)
        waiting.register(process, select.POLLIN)
        while any(ready == descriptor for ready, _ in waiting.poll()):
            part = os.read(descriptor, 1 << 20)
            if not part:
                break
            parts.append(part)
    finally:
        os.close(process)
    return b"".join(parts)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
