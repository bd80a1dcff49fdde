"""Serialization of objects by Parsl's function names, for programs without Parsl."""

from __future__ import annotations

from typing import Any

from gristmill._errors import UnpicklableError as SerializationError

__all__ = ["SerializationError", "deserialize", "serialize"]


def serialize(obj: Any, buffer_threshold: int = 1_000_000) -> bytes:
    """Returns an object's bytes, with functions and classes of the main program by value.

    ``buffer_threshold`` is not used. Raises ``SerializationError`` for an object that cannot be pickled.
    """
    from gristmill import _pickling

    try:
        return _pickling.dump_plain(obj)
    except Exception as error:
        raise SerializationError(f"cannot pickle {obj!r}: {error}") from error


def deserialize(payload: bytes) -> Any:
    """Returns the object of such bytes. Never use it on bytes from a source that you do not trust."""
    import pickle

    return pickle.loads(payload)
