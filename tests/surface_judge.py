"""The judge of the surface fuzzer: it decides which errors of calls are documented, and which are faults."""

from __future__ import annotations

import concurrent.futures

#: Time limit of a result, seconds: the fuzzer's tasks are short, so a later result never comes.
RESULT_S = 60.0

#: Texts that no exception may have, whatever its type: a panic, a borrow, a contradiction, a lost exception.
FORBIDDEN = (
    "panic",
    "borrowed",
    "is broken",
    "without exception set",
    "returned a result with",
    "mid > len",
)
#: Texts that a ``RuntimeError`` may have.
_RUNTIME = ("after shutdown", "StopIteration", "cannot start new thread", "cleaned-up")


class Own(Exception):
    """An exception of hostile objects, which may arrive unchanged."""


class Trouble(BaseException):
    """A fault that the fuzzer has found."""


def judge(error: BaseException, option: str | None) -> None:
    """Raises ``Trouble`` unless the error is a documented one and names the option that it concerns."""
    import gristmill

    text = f"{type(error).__name__}: {error}" if not isinstance(error, Own) else "Own"
    documented = (
        Own,
        TypeError,
        ValueError,
        TimeoutError,
        concurrent.futures.CancelledError,
        gristmill.GristmillError,
    )
    if any(words in text for words in FORBIDDEN):
        raise Trouble(text) from error
    if option is not None:
        # Errors about missing resources of a machine and about unsendable values need not name the option.
        is_named = option in text or isinstance(error, gristmill.GristmillError)
        if isinstance(error, (TypeError, ValueError)) and not is_named:
            raise Trouble(f"{option} is not named by {text}") from error
        # An error of the file system about a path names the option too.
        is_of_files = isinstance(error, OSError) and option in text
        refusals = (TypeError, ValueError, Own, gristmill.GristmillError)
        if not is_of_files and not isinstance(error, refusals):
            raise Trouble(f"{option} is refused with {text}") from error
    elif isinstance(error, RuntimeError):
        if not isinstance(error, gristmill.GristmillError) and not any(
            one in text for one in _RUNTIME
        ):
            raise Trouble(text) from error
    elif not isinstance(error, documented):
        raise Trouble(text) from error


def safe(error: object) -> str:
    """Returns an error's text, if it has one."""
    try:
        return str(error)
    except BaseException:
        return "no text"
