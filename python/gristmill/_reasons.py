"""Texts of exceptions for messages that name the reason of a failure."""

from __future__ import annotations


def reason_of(error: BaseException) -> str:
    """Returns the message of an exception, or the name of its type if the message is empty or cannot be made.

    Any stream can print it: surrogates are escaped.
    """
    try:
        text = str(error).encode(errors="backslashreplace").decode()
    except Exception:  # the message of the failure must not fail because of its reason
        text = ""
    return text if text.strip() else type(error).__qualname__
