"""Takes a task's exception to the caller: type, message, notes and causes, and the worker's traceback as text.

An exception that does not survive the journey arrives as ``RemoteError`` with its type's name and its traceback.
"""

from __future__ import annotations

import itertools
import pickle
import traceback

from gristmill import _unpickling
from gristmill._errors import RemoteError, RemoteTraceback

#: Longer chains of causes are cut; the text has them all.
_CHAIN_MAX = 32


def dump_exception(error: BaseException) -> bytes:
    """Turns an exception into bytes. Never raises for the exception's sake."""
    text = _format(error)
    chain = _chain(error)
    try:
        from gristmill import _pickling

        pickled = _pickling.dump_value(chain)
        _unpickling.load(pickled, {})
    except BaseException:
        pickled = b""
    return pickle.dumps((pickled, _name(error), _message(error), text))


def load_exception(data: bytes) -> BaseException:
    """Rebuilds an exception, its causes linked as they were and the worker's traceback innermost."""
    pickled, name, message, text = pickle.loads(data)
    try:
        links = _unpickling.load(pickled, {}) if pickled else []
    except Exception:
        links = []
    if not links:
        error: BaseException = RemoteError(f"{name}: {message}", name)
        error.__cause__ = RemoteTraceback(text)
        return error
    for (outer, how), (inner, _) in itertools.pairwise(links):
        if how == "cause":
            outer.__cause__ = inner
        else:
            outer.__context__ = inner
    innermost = links[-1][0]
    if innermost.__cause__ is None:
        innermost.__cause__ = RemoteTraceback(text)
    first: BaseException = links[0][0]
    return first


def _chain(error: BaseException) -> list[tuple[BaseException, str]]:
    """The exception and its causes, each with how the next one hangs on it."""
    chain: list[tuple[BaseException, str]] = []
    link: BaseException | None = error
    while link is not None and len(chain) < _CHAIN_MAX and all(link is not met for met, _ in chain):
        if link.__cause__ is not None:
            chain.append((link, "cause"))
            link = link.__cause__
        else:
            chain.append((link, "context"))
            link = None if link.__suppress_context__ else link.__context__
    return chain


def _format(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error))
    except Exception as second:
        return f"{_name(error)} (its traceback could not be formatted: {second!r})\n"


def _name(error: BaseException) -> str:
    kind = type(error)
    return (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "(its message could not be formatted)"
