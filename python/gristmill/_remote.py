"""Transfer of a task's exception to the caller: type, message, notes and causes, and the worker's traceback as text.

Each exception is pickled by itself: those of the chain of causes, the members of groups, and those in the arguments of
others. An exception that cannot be transferred arrives as ``RemoteError`` with its type's name. The others arrive
unchanged. Nothing that an exception does prevents its description: its attributes are read past its class, and
exceptions of its methods are caught. An exception of an importable class needs no file, no import and little memory.
"""

from __future__ import annotations

# Bound here, because a task may replace builtins and remove modules. Both modules are in the interpreter itself. What
# else an exception needs is in `_remote_pickles`, which loads modules that a bare worker does not have.
import builtins
from builtins import (  # noqa: UP029
    BaseException,
    BaseExceptionGroup,
    Exception,
    KeyboardInterrupt,
    all,
    any,
    bool,
    bytes,
    float,
    id,
    int,
    isinstance,
    issubclass,
    len,
    list,
    range,
    set,
    str,
    tuple,
    type,
    zip,
)
from marshal import dumps, loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    #: Form of one sent exception: the name and the arguments of a built-in one, a pickle, or empty if it cannot be
    #: sent.
    _Form = bytes | tuple[str, tuple[Any, ...]]

#: The longest chain of causes that is sent. The text says if more are left out.
_CHAIN_MAX = 32
#: The largest number of exceptions that are sent with one: those of chains, of groups and of arguments together.
_SENT_MAX = 512
#: Characters of a message or a note, and of the traceback or all notes. The middle of a longer text is left out, and so
#: are further notes.
MESSAGE_MAX = 50_000
_TEXT_MAX = 200_000
#: Frames of a traceback. Of a longer one, the last frames are shown.
_FRAMES_MAX = 1500

# Attributes that classes of exceptions may have overridden.
_cause_of = BaseException.__dict__["__cause__"]
_context_of = BaseException.__dict__["__context__"]
_is_suppressed = BaseException.__dict__["__suppress_context__"]
_traceback_of = BaseException.__dict__["__traceback__"]
_dict_of = BaseException.__dict__["__dict__"]
_members_of = BaseExceptionGroup.exceptions
_module_of = type.__dict__["__module__"]
_qualified_name_of = type.__dict__["__qualname__"]

_BUILT_IN = {
    name: kind
    for name, kind in vars(builtins).items()
    if type(kind) is type and issubclass(kind, BaseException)
}

_CAUSE = "\nThe above exception was the direct cause of the following exception:\n\n"
_CONTEXT = "\nDuring handling of the above exception, another exception occurred:\n\n"


def dump_exception(error: BaseException) -> bytes:
    """Turns an exception into bytes. Never raises because of the exception."""
    text = middle_cut(_format(error), _TEXT_MAX)
    sent = Sent()
    first = sent.add_chain(error)
    return dumps((first, sent.described, text))


#: ``gristmill._errors``, once exceptions have arrived or may arrive.
_errors: Any = None


def prepare() -> None:
    """Loads the modules that arriving exceptions need: nothing can be loaded any more when the interpreter ends."""
    global _errors
    if _errors is None:
        from gristmill import _errors as loaded

        _errors = loaded


def load_exception(data: bytes) -> BaseException:
    """Rebuilds an exception, with its causes linked as they were and the worker's traceback innermost."""
    prepare()
    first, described, text = loads(data)
    made: list[BaseException] = []
    for form, name, message, notes, _, _ in described:
        made.append(_rebuild(form, name, message, notes, made))
    for error, (*_, cause, context) in zip(made, described, strict=True):
        if cause is not None:
            _cause_of.__set__(error, made[cause])
        elif context is not None:
            _context_of.__set__(error, made[context])
    innermost, passed = first, {first}
    while True:
        (*_, cause, context) = described[innermost]
        inner = context if cause is None else cause
        if inner is None or inner in passed:
            break
        passed.add(inner)
        innermost = inner
    if _cause_of.__get__(made[innermost]) is None:
        _cause_of.__set__(made[innermost], _errors.RemoteTraceback(text))
    return made[first]  # type: ignore[no-any-return]


class _Unsendable(Exception):
    """Placeholder for an exception that arrives as ``RemoteError``."""


class Sent:
    """The exceptions that are sent with one, each behind all that its pickle names."""

    def __init__(self) -> None:
        #: The form, name, message and notes of each exception, and the indices of its cause and of its context.
        self.described: list[tuple[_Form, str, str, list[str], int | None, int | None]] = []
        self._indices: dict[int, int | None] = {}
        self._copies: list[BaseException] = []
        #: References that keep the addresses in use.
        self._held: list[BaseException] = []

    def add_chain(self, error: BaseException) -> int:
        """Adds an exception and the chain that it came from. Returns its index."""
        chain = _chain(error)
        indices = [self.add(link) for link, _ in chain]
        for (_, how), outer, inner in zip(chain, indices, indices[1:], strict=False):
            if outer is None or inner is None or inner == outer:
                continue
            (*rest, cause, context) = self.described[outer]
            if cause is None and context is None:
                links = (inner, None) if how == "cause" else (None, inner)
                self.described[outer] = (*rest, *links)
        first = indices[0]
        if first is None:
            first = self._describe(error, b"", None)
        return first

    def add(self, error: BaseException) -> int | None:
        """Adds one exception without its chain. Returns its index, or ``None`` while it is being added."""
        if id(error) in self._indices:
            return self._indices[id(error)]
        self._held.append(error)
        self._indices[id(error)] = None
        try:
            plain = _plain(error)
            if plain is not None:
                return self._describe(error, plain, error)
            from gristmill._remote_pickles import attempts, load
        except BaseException:
            return self._describe(error, b"", None)
        for attempt in attempts(error, self):
            try:
                pickled = attempt()
                copy = load(pickled, self._copies)
                if _is_exception(copy):
                    return self._describe(error, pickled, copy)
            except BaseException:
                continue
        return self._describe(error, b"", None)

    def index_of(self, error: BaseException) -> int | None:
        """Returns the index of a member of a group, or of an exception in the arguments of another one."""
        if id(error) in self._indices:
            return self._indices[id(error)]
        return self.add_chain(error)

    def takes(self, error: BaseException) -> bool:
        """Returns whether there is room for an exception, or it was added before."""
        return len(self._indices) < _SENT_MAX or id(error) in self._indices

    def _describe(self, error: BaseException, sent: _Form, copy: BaseException | None) -> int:
        name, message = _name(error), middle_cut(_message(error), MESSAGE_MAX)
        if copy is None:
            copy = _Unsendable()
        self.described.append((sent, name, message, _notes(error), None, None))
        self._copies.append(copy)
        self._indices[id(error)] = len(self.described) - 1
        return len(self.described) - 1


#: Types of the arguments of a plain exception.
_PLAIN = (int, float, bool, str, bytes, type(None))


def _plain(error: BaseException) -> tuple[str, tuple[Any, ...]] | None:
    """Returns the name and the arguments of a built-in exception with only plain arguments; ``None`` for others."""
    kind = type(error)
    if _BUILT_IN.get(kind.__name__) is not kind or issubclass(kind, BaseExceptionGroup):
        return None
    made: Any = kind.__reduce__(error)
    if len(made) > 2 and made[2] and set(made[2]) != {"__notes__"}:
        return None
    arguments = made[1]
    return (kind.__name__, arguments) if all(type(one) in _PLAIN for one in arguments) else None


def _rebuild(
    sent: _Form, name: str, message: str, notes: list[str], made: list[BaseException]
) -> BaseException:
    error: Any = None
    unread = ""
    if sent:
        try:
            if isinstance(sent, tuple):
                error = _BUILT_IN[sent[0]](*sent[1])
            else:
                from gristmill._remote_pickles import load

                error = load(sent, made)
        except KeyboardInterrupt:
            raise
        except BaseException as why:
            unread = f" (it could not be read here: {_name(why)}: {_message(why)})"
    if not _is_exception(error) or any(error is one for one in made):
        error = _errors.RemoteError(f"{name}: {message}{unread}", name)
    if notes and "__notes__" not in (attributes := _dict_of.__get__(error)):
        attributes["__notes__"] = notes
    return error  # type: ignore[no-any-return]


def _is_exception(value: Any) -> bool:
    """Returns whether a value is an exception, whatever it says about its class."""
    return issubclass(type(value), BaseException)


def _chain(error: BaseException) -> list[tuple[BaseException, str]]:
    """Returns the exception and the chain it came from, each with its link to the next: ``cause`` or ``context``."""
    chain: list[tuple[BaseException, str]] = []
    met: set[int] = set()
    link: Any = error
    while link is not None and len(chain) < _CHAIN_MAX and id(link) not in met:
        met.add(id(link))
        cause = _cause_of.__get__(link)
        if cause is not None:
            chain.append((link, "cause"))
            link = cause
        else:
            chain.append((link, "context"))
            link = None if _is_suppressed.__get__(link) else _context_of.__get__(link)
    return chain


def _format(error: BaseException) -> str:
    """Returns the traceback of an exception and of its chain, as Python prints it."""
    chain = _chain(error)
    parts: list[str] = []
    last, how = chain[-1]
    further = _cause_of.__get__(last) if how == "cause" else _context_of.__get__(last)
    if len(chain) == _CHAIN_MAX and further is not None:
        parts.append(
            f"(earlier exceptions of the chain are left out: the limit is {_CHAIN_MAX})\n\n"
        )
    for index in range(len(chain) - 1, -1, -1):
        link, how = chain[index]
        if index < len(chain) - 1:
            parts.append(_CAUSE if how == "cause" else _CONTEXT)
        parts.append(_format_one(link))
    return "".join(parts)


def _format_one(error: BaseException) -> str:
    """Returns the traceback of an exception alone. Takes its cause and context off meanwhile."""
    cause, context = _cause_of.__get__(error), _context_of.__get__(error)
    is_suppressed = _is_suppressed.__get__(error)
    try:
        from traceback import format_exception

        _cause_of.__set__(error, None)
        _context_of.__set__(error, None)
        trace = _traceback_of.__get__(error)
        limit = -_FRAMES_MAX if _depth(trace) > _FRAMES_MAX else None
        return _exact("".join(format_exception(type(error), error, trace, limit)))
    except BaseException:
        return _format_simply(error)
    finally:
        _cause_of.__set__(error, cause)
        _context_of.__set__(error, context)
        _is_suppressed.__set__(error, is_suppressed)


def _depth(trace: Any) -> int:
    depth = 0
    while trace is not None:
        depth += 1
        trace = trace.tb_next
    return depth


def _format_simply(error: BaseException) -> str:
    """Returns the traceback without the source, for a process that can open and import nothing any more."""
    lines = ["Traceback (most recent call last):\n"]
    step: Any = _traceback_of.__get__(error)
    while step is not None and len(lines) < _FRAMES_MAX:
        code = step.tb_frame.f_code
        lines.append(f'  File "{code.co_filename}", line {step.tb_lineno}, in {code.co_name}\n')
        step = step.tb_next
    lines.append(f"{_name(error)}: {_message(error)}\n")
    return "".join(lines)


def _name(error: BaseException) -> str:
    kind = type(error)
    try:
        module, name = _module_of.__get__(kind), _qualified_name_of.__get__(kind)
        return _exact(name if module == "builtins" else f"{module}.{name}")
    except BaseException:
        return "an exception whose type has no name"


def _message(error: BaseException) -> str:
    try:
        return _exact(str(error))
    except BaseException as second:
        return f"(its message could not be formatted: {_name(second)})"


def _notes(error: BaseException) -> list[str]:
    try:
        notes = _dict_of.__get__(error).get("__notes__")
        if not isinstance(notes, (list, tuple)):
            return []
        return _bounded(note for note in notes if isinstance(note, str))
    except BaseException:
        return []


def _bounded(notes: Iterable[str]) -> list[str]:
    """Returns the first notes, as many as may be sent. A last one says how many are left out."""
    kept: list[str] = []
    size = left_out = 0
    for note in notes:
        text = middle_cut(_exact(note), MESSAGE_MAX)
        size += len(text)
        if size <= _TEXT_MAX:
            kept.append(text)
        else:
            left_out += 1
    if left_out:
        kept.append(f"({left_out} more notes are left out: the limit is {_TEXT_MAX} characters)")
    return kept


def _exact(text: str) -> str:
    """Returns the same characters as a plain ``str``, even if the text is of a subclass."""
    return "".join(("", text))


def middle_cut(text: str, size: int) -> str:
    """Returns a text without its middle if it is longer than ``size`` characters."""
    if len(text) <= size:
        return text
    half = size // 2
    return (
        f"{text[:half]}\n... ({len(text) - 2 * half} characters are left out) ...\n{text[-half:]}"
    )
