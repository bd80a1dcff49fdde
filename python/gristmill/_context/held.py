"""Context of this process: set up in this process, or in the process that it was forked from."""

from __future__ import annotations

import inspect
import os
import types

from gristmill import _functions, _loading, _steps, _threads, _worker_environment
from gristmill._context import arguments, files, layers, packages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import IO, Any

    from gristmill._context.declare import Context

#: Size of a key in bytes.
KEY_SIZE = 16
#: Time limit for the code after the ``yield`` of a setup. A process that is asked to leave gets more time than this.
_END_SECONDS = 5.0


class Held:
    """A context that this process, or its parent, has set up."""

    def __init__(self, name: str, key: bytes, place: tuple[str, int]) -> None:
        self.name = name
        self.key = key
        self.place = place
        #: Objects that the setup returned, by name.
        self.objects: dict[str, Any] = {}
        #: Rest of the setup, which runs when the context is no longer needed.
        self._rest: Iterator[Any] | None = None
        #: Id of the process that ran the setup. Forks share the context but do not end it.
        self._process = 0

    def begin(self, setup: Callable[..., Any], args: tuple[Any, ...]) -> None:
        """Calls the setup; raises what the setup raises, and ``TypeError`` if its result is no dict."""
        self._process = os.getpid()
        made = setup(*args)
        if inspect.isgenerator(made):
            self._rest = made
            made = next(made, None)
        if made is None:
            made = {}
        if not isinstance(made, dict):
            does = "yield" if self._rest is not None else "return"
            raise TypeError(
                f"the setup of context {self.name!r} must {does} a dict of names to objects, not "
                f"{type(made).__qualname__}"
            )
        self.objects = made

    def has_rest(self) -> bool:
        """Returns whether this process began the setup and the setup has more code to run."""
        return self._rest is not None and os.getpid() == self._process

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
    """Returns whether the described context has its own packages: an environment, or layers."""
    if not description:
        return False
    described = read(description)[1]
    return described["environment"] is not None or bool(described["layers"])


def read(description: bytes) -> tuple[bytes, dict[str, Any]]:
    """Returns the key of a context and its options, from what ``write`` returned."""
    return description[:KEY_SIZE], _worker_environment.load(description[KEY_SIZE:])


def write(key: bytes, described: dict[str, Any]) -> bytes:
    """Returns the description of a context, which ``read`` reads."""
    return key + _worker_environment.dump(described)


def set_up(description: bytes, environment: bytes, last_words: IO[Any] | None = None) -> None:
    """Sets up the described context; raises any exception of the setup.

    ``environment`` is the caller's worker environment.

    If the setup hangs or crashes, its stack is written to ``last_words``, or to standard error.
    """
    global _held
    key, described = read(description)
    is_kept, is_forked = described["reuse"] == "memory", described["mode"] == "fork"
    new = Held(described["name"], key, described["place"])
    if is_kept:
        with _steps.Step(described["timeout"], last_words):
            with _loading.Run(f"preparing context {new.name!r}"):
                files.enter(described["files"])
                layers.enter(described["layers"])
                if described["environment"] is not None:
                    packages.enter(described["environment"])
            with _loading.Load("importing", f"to set up context {new.name!r}"):
                _threads.import_all(described["preload"])
            with _loading.Run(f"running the setup of context {new.name!r}"):
                setup = _functions.load(described["setup"])
                new.begin(setup, arguments.load(described["args"], described["parts"]))
    if not is_kept or is_forked or described["own_folder"]:
        from gristmill._context import calls

        anew = None if is_kept else calls.Anew(new.name, description, environment)
        _functions.wrap = calls.way(anew, is_forked, described["own_folder"])
    _held = new


def name() -> str:
    """Returns the name of this process's context; an empty string without a context."""
    return _held.name if _held is not None else ""


def has_rest() -> bool:
    """Returns whether the setup of this process has more code to run."""
    return _held is not None and _held.has_rest()


def tear_down() -> None:
    """Runs the rest of the setup, if this process ran the setup and it has more code."""
    if _held is None:
        return
    try:
        with _steps.Step(_END_SECONDS):
            _end_by_name(_held)()
    except BaseException as error:
        error.add_note(
            f"the error was raised at the end of context {_held.name!r}, in the code after the yield of its setup."
        )
        raise


def _end_by_name(one: Held) -> Callable[[], None]:
    """Returns a function that ends a context; its code has the context's name, so that stack dumps show it."""
    code = Held.end.__code__.replace(co_name=f"the end of context {one.name!r}")
    return types.FunctionType(code, globals()).__get__(one)


def objects_of(context: Context) -> dict[str, Any]:
    """Returns the objects that the setup of a context returned here; raises ``ContextError`` if it has not run here."""
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
    """Returns the key of a context if this worker has it; its engine knows the context by that key. Else ``None``."""
    return _held.key if _held is not None and _is_same(context, _held) else None


def _is_same(context: Context, other: Held) -> bool:
    """Returns whether both are the same context: by key, or by module and number if the module ran again here."""
    if context._place == other.place and context._place[0] != "__main__":
        return context.name == other.name
    return context.key == other.key
