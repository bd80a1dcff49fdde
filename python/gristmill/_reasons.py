"""Texts of exceptions for messages that name the reason of a failure."""

from __future__ import annotations

#: Characters of a message that are kept.
_LENGTH_MAX = 2000


def reason_of(error: BaseException) -> str:
    """Returns the beginning of an exception's message, or the name of its type if it is empty or cannot be made.

    Any stream can print it: surrogates are escaped.
    """
    try:
        text = str(error).encode(errors="backslashreplace").decode()
    except Exception:  # the message of the failure must not fail because of its reason
        text = ""
    return text[:_LENGTH_MAX] if text.strip() else type(error).__qualname__
