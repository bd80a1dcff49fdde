"""The context of this process: set up in it, or in the process that it was forked from."""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
import types

from gristmill import _functions, _native, _threads, _world
from gristmill._context import arguments, files, layers, packages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import IO, Any

    from gristmill._context.declare import Context

#: Bytes of a key.
KEY_SIZE = 16
#: How long the rest of a setup may take. Whoever has asked the process to leave waits longer than that.
_END_SECONDS = 5.0


class Held:
    """A context that was set up."""

    def __init__(self, name: str, key: bytes, place: tuple[str, int]) -> None:
        self.name = name
        self.key = key
        self.place = place
        #: What the setup left behind, by name.
        self.objects: dict[str, Any] = {}
        #: What is to run once nobody needs it any more.
        self._rest: Iterator[Any] | None = None
        #: The process that was set up; forks of it share it, and do not end it.
        self._process = 0

    def begin(self, setup: Callable[..., Any], args: tuple[Any, ...]) -> None:
        """Calls the setup; raises what it raises, and ``TypeError`` for what is no dict."""
        self._process = os.getpid()
        try:
            made = setup(*args)
            if inspect.isgenerator(made):
                self._rest = made
                made = next(made, None)
        finally:
            if os.getpid() != self._process:
                # A child that the setup has forked, and that is not to be another worker.
                os._exit(0)
        if made is None:
            made = {}
        if not isinstance(made, dict):
            does = "yield" if self._rest is not None else "return"
            raise TypeError(
                f"the setup of context {self.name!r} must {does} a dict of names to objects, not "
                f"{type(made).__qualname__}"
            )
        self.objects = made

    def end(self) -> None:
        """Runs the rest of the setup, in the process that began it."""
        rest, self._rest = self._rest, None
        if rest is None or os.getpid() != self._process:
            return
        for _ in rest:
            raise RuntimeError(f"the setup of context {self.name!r} yielded twice")


#: The context of this worker.
_held: Held | None = None


def has_packages(description: bytes) -> bool:
    """Whether the context that a description names has packages of its own: an environment, or what is brought."""
    if not description:
        return False
    told = read(description)[1]
    return told["environment"] is not None or bool(told["layers"])


def read(description: bytes) -> tuple[bytes, dict[str, Any]]:
    """The key of a context, and what is told of it, from what ``Context`` has written."""
    return description[:KEY_SIZE], _world.load(description[KEY_SIZE:])


def write(key: bytes, told: dict[str, Any]) -> bytes:
    """The description of a context: what ``read`` reads."""
    return key + _world.dump(told)


def set_up(description: bytes, world: bytes, last_words: IO[Any] | None = None) -> None:
    """Sets up the context that a description names; raises whatever that raises. ``world`` is the caller's.

    Where a setup was that hung or crashed is written to ``last_words``, or to standard error.
    """
    global _held
    key, told = read(description)
    is_kept, is_forked = told["reuse"] == "memory", told["mode"] == "fork"
    new = Held(told["name"], key, told["place"])
    if is_kept:
        with _watched(told["timeout"], last_words):
            files.enter(told["files"])
            layers.enter(told["layers"])
            if told["environment"] is not None:
                packages.enter(told["environment"])
            _threads.import_all(told["preload"])
            new.begin(_functions.load(told["setup"]), arguments.load(told["args"], told["parts"]))
    if not is_kept or is_forked or told["own_folder"]:
        from gristmill._context import calls

        anew = None if is_kept else calls.Anew(new.name, description, world)
        _functions.wrap = calls.way(anew, is_forked, told["own_folder"])
    _held = new


def name() -> str:
    """What the context of this process is called."""
    return _held.name if _held is not None else ""


def tear_down() -> None:
    """Runs the rest of the setup, if this process was set up and there is a rest."""
    if _held is None:
        return
    try:
        with _watched(_END_SECONDS, None):
            _end_by_name(_held)()
    except BaseException as error:
        error.add_note(
            f"This was the end of context {_held.name!r}: what follows the yield of its setup."
        )
        raise


def _end_by_name(one: Held) -> Callable[[], None]:
    """How to end a context, under a name that says in tracebacks which it is: also where only the stack can be seen."""
    code = Held.end.__code__.replace(co_name=f"the end of context {one.name!r}")
    return types.FunctionType(code, globals()).__get__(one)


def objects_of(context: Context) -> dict[str, Any]:
    """What the setup of a context left behind in this process; raises ``ContextError`` if it has not run here."""
    if _held is not None and _is_same(context, _held):
        return _held.objects
    from gristmill._errors import ContextError

    if _held is not None:
        text = f"this worker has context {_held.name!r}, not {context.name!r}"
    elif "GRISTMILL_WORKER" in os.environ:
        text = f"this worker does not have context {context.name!r}"
    else:
        raise ContextError(
            f"context {context.name!r} is not set up in this process: use it in tasks, or here in a block "
            '"with context:"'
        )
    raise ContextError(
        f"{text}: submit the task with options(context=...), or use python_app(context=...)"
    )


def key_of(context: Context) -> bytes | None:
    """The key of a context if it is the one of this worker, whose engine knows it by that."""
    return _held.key if _held is not None and _is_same(context, _held) else None


def _is_same(context: Context, other: Held) -> bool:
    """Whether that is the one: by its key, or, where a module made it again in this process, by its place there."""
    if context._place == other.place and context._place[0] != "__main__":
        return context.name == other.name
    return context.key == other.key


@contextlib.contextmanager
def _watched(seconds: float | None, last_words: IO[Any] | None) -> Iterator[None]:
    """Has this process say where it is when the block crashes, or takes longer than it may, which ends it."""
    import faulthandler

    # Without Python's help: what hangs may hold the interpreter.
    file = last_words or sys.stderr
    speaks_already = faulthandler.is_enabled()
    if not speaks_already:
        faulthandler.enable(file)
    timer = None
    if seconds is not None:
        faulthandler.register(_native.SETUP_ALARM, file, chain=True)
        timer = _native.SetupTimer(seconds)
    try:
        yield
    finally:
        if timer is not None:
            timer.stop()
            faulthandler.unregister(_native.SETUP_ALARM)
        if not speaks_already:
            faulthandler.disable()
