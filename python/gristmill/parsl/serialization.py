"""Objects as bytes, by Parsl's names for it, for programs without Parsl."""

from __future__ import annotations

from typing import Any

from gristmill._errors import UnpicklableError as SerializationError

__all__ = ["SerializationError", "deserialize", "serialize"]


def serialize(obj: Any, buffer_threshold: int | None = None) -> bytes:
    """Gives an object's bytes; functions and classes of the main program go by value. ``buffer_threshold`` is not used.

    Raises ``SerializationError`` for what cannot be pickled.
    """
    import cloudpickle

    try:
        data: bytes = cloudpickle.dumps(obj)
    except Exception as error:
        raise SerializationError(f"cannot pickle {obj!r}: {error}") from error
    return data


def deserialize(payload: bytes) -> Any:
    """Gives the object of such bytes. Never use it on bytes from a source that you do not trust."""
    import pickle

    return pickle.loads(payload)
