"""Calls in separate processes: in a fork of the worker, or in a new interpreter that sets up the context again."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import traceback
from typing import TYPE_CHECKING, Any, NoReturn

from gristmill import (
    _ending,
    _forked,
    _functions,
    _identity,
    _job_signals,
    _loading,
    _native,
    _pickling,
    _remote,
    _starting,
    _unpickling,
    _worker_environment,
)
from gristmill._context import folders
from gristmill._errors import ContextError, WorkerLostError
from gristmill._held_interrupts import HeldInterrupts

if TYPE_CHECKING:
    from collections.abc import Callable

#: First byte of a child's answer.
_RETURNED, _RAISED = b"+", b"-"
#: Byte before the answer of a child that sets up the context: whether the setup succeeded.
_SET_UP, _NOT_SET_UP = b".", b"!"


def way(
    anew: Anew | None, is_forked: bool, own_folder: bool
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Returns a wrapper that makes each function of a context run its calls in the declared way."""

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
        """Calls the function in a new folder, then removes the folder with its content."""
        before = os.getcwd()
        folder = folders.make()
        try:
            os.chdir(folder)
            return self._function(*args, **kwargs)
        finally:
            os.chdir(before)
            folders.remove(folder)


class Forked:
    """A function whose calls run in forks of this process, so that they cannot change it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function in a child and raises its exception here; raises ``WorkerLostError`` if the child dies."""
        with _loading.ChildNote() as note:
            answer, code = self._call_in_child(note, args, kwargs)
            return _result(answer, code, "the forked child of the call", note)

    def _call_in_child(
        self, note: _loading.ChildNote, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[bytes, int]:
        """Returns the answer of a child and its exit code."""
        reader, writer = os.pipe()
        _flush()
        interrupts = HeldInterrupts()
        try:
            with _job_signals.Held() as held:
                child = os.fork()
                if child == 0:
                    _be_child(self._function, args, kwargs, (writer, note.descriptor), held)
        except BaseException:
            interrupts.release()
            raise
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
        return answer, os.waitstatus_to_exitcode(status)


def _be_child(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    files: tuple[int, int],
    held: _job_signals.Held,
) -> NoReturn:
    """Calls the function, writes its result or exception, and ends this process.

    ``files`` are two descriptors: one for the answer, one for notes about what the child is loading or running.
    ``held`` are the signals that the child has not yet left to the program.
    """
    code = 1
    writer, note = files
    try:
        # An interrupt of the worker kills its child, so the child needs no handler of its own.
        signal.signal(_native.INTERRUPT_SIGNAL, signal.SIG_DFL)
        _job_signals.leave_as_parent()
        held.release()
        _ending.forget_inherited()
        _loading.note_in(note)
        with open(writer, "wb") as file, _loading.Run("running the call", is_silent=True):
            file.write(_answer(function, args, kwargs))
        _forked.guarded(_ending.run)
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        _flush()
        os._exit(code)


class Anew:
    """A wrapper for functions whose calls each run in a new interpreter that sets up the context first."""

    def __init__(self, name: str, description: bytes, environment: bytes) -> None:
        self._name = name
        self._described = (environment, description)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a function that runs each call of ``function`` in a new interpreter."""
        definition = _functions.definition(function)
        return lambda *args, **kwargs: self._call(definition, args, kwargs)

    def _call(self, definition: bytes, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        message = _worker_environment.dump(
            (*self._described, definition, _pickling.dump_value((args, kwargs)))
        )
        with _loading.ChildNote() as note:
            answer, code = self._run(message, note.descriptor)
            if answer[:1] != _SET_UP:
                raise ContextError(_why_not_set_up(self._name, answer, code, note))
            return _result(answer[1:], code, f"the process of the call in {self._name!r}", note)

    def _run(self, message: bytes, note: int) -> tuple[bytes, int]:
        """Returns the answer of a new interpreter and its exit code."""
        reader, writer = os.pipe()
        files = [str(descriptor) for descriptor in (writer, note)]
        command = _starting.command("gristmill._context.calls", *files)
        environment = {**os.environ, **_starting.variables()}
        interrupts = HeldInterrupts()
        try:
            with _job_signals.Held():
                started = subprocess.Popen(
                    command, stdin=subprocess.PIPE, pass_fds=(writer, note), env=environment
                )
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
        return answer, child.returncode


def main() -> None:
    """Sets up a context, calls one function, and writes the outcome of both: the program that ``Anew`` starts."""
    from gristmill._context import held

    _job_signals.leave_to_program()
    _job_signals.release_inherited()
    writer = int(sys.argv[1])
    _loading.note_in(int(sys.argv[2]))
    environment, description, definition, pickled = _worker_environment.load(
        sys.stdin.buffer.read()
    )
    entered = _worker_environment.enter(environment, held.has_packages(description))
    _worker_environment.preload(entered)
    _identity.adopt(entered["key"])

    def call() -> Any:
        function = _functions.load(definition)
        with _loading.Load("reading the arguments", "to read an argument of the task"):
            args, kwargs = _unpickling.load(pickled, {})
        with _loading.Run("running the call", is_silent=True):
            return function(*args, **kwargs)

    with open(writer, "wb") as file:
        try:
            _forked.guarded(held.set_up, _as_memory(description), environment, file)
        except BaseException:
            file.write(_NOT_SET_UP + traceback.format_exc().encode(errors="backslashreplace"))
            return
        file.write(_SET_UP)
        file.flush()
        file.write(_answer(call, (), {}))
    try:
        _forked.guarded(held.tear_down)
    except BaseException:
        sys.excepthook(*sys.exc_info())


def _as_memory(description: bytes) -> bytes:
    """Returns the description of the same context with reuse in memory, for a process that serves one call."""
    from gristmill._context import held

    key, described = held.read(description)
    return held.write(key, {**described, "mode": "direct", "reuse": "memory", "own_folder": False})


def _answer(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
    def call() -> bytes:
        return _RETURNED + _pickling.dump_value(function(*args, **kwargs))

    try:
        return _forked.guarded(call)
    except BaseException as error:
        return _RAISED + _remote.dump_exception(error)


def _result(answer: bytes, code: int, who: str, note: _loading.ChildNote) -> Any:
    """Returns the result that a child sent, or raises its exception; raises ``WorkerLostError`` if it sent neither."""
    if answer[:1] == _RETURNED:
        return _unpickling.load(answer[1:], {})
    if answer[:1] == _RAISED:
        raise _remote.load_exception(answer[1:])
    raise WorkerLostError(f"before {who} had returned it ended {_how(code)}{note.doing()}")


def _why_not_set_up(name: str, answer: bytes, code: int, note: _loading.ChildNote) -> str:
    """Returns the reason why the process of a call did not reach the call."""
    words = answer.removeprefix(_NOT_SET_UP).decode(errors="backslashreplace")
    if answer[:1] == _NOT_SET_UP:
        why = f"the setup of context {name!r} failed"
    elif code == -_native.SETUP_ALARM:
        why = f"context {name!r} was not set up in time, and its process was stopped{note.doing()}"
    else:
        why = f"the process that set up context {name!r} ended {_how(code)}{note.doing()}"
    return f"{why}:\n{words}" if words else why


def _how(code: int) -> str:
    """Returns how a process ended, from its exit code."""
    if code >= 0:
        return f"with exit code {code}"
    perhaps = ", perhaps because memory was short" if code == -signal.SIGKILL else ""
    return f"by signal {-code} ({_native.signal_name(-code)}){perhaps}"


def _read_all(descriptor: int, writer: int) -> bytes:
    """Returns all that a child writes until it ends. Its own children may keep the descriptor open for longer."""
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
