"""Bytes that identify arrays and tables by their content, independent of the memory layout."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from gristmill.parsl._kernel.memo_bytes import framed, hashed

if TYPE_CHECKING:
    from gristmill.parsl._kernel.memo_values import Encoder


def encode_array(encoder: Encoder, value: Any) -> bytes | None:
    """Encodes a numpy array or scalar, a Series or a DataFrame. Returns ``None`` for anything else, also a subclass."""
    numpy, pandas = sys.modules.get("numpy"), sys.modules.get("pandas")
    kind = type(value)
    if numpy is not None and (kind is numpy.ndarray or isinstance(value, numpy.generic)):
        return _array(encoder, value)
    if pandas is not None and kind is pandas.Series:
        labels = (value.index, value.name, value.attrs)
        return encoder.in_order(b"E", ("Series", *labels, _column(value)))
    if pandas is not None and kind is pandas.DataFrame:
        columns = [_column(value.iloc[:, place]) for place in range(value.shape[1])]
        labels = (value.index, value.columns, value.attrs)
        return encoder.in_order(b"E", ("DataFrame", *labels, columns))
    return None


def _column(series: Any) -> Any:
    """Returns the elements as a numpy array, or as a pandas array where numpy has no such type."""
    import numpy

    is_numpy = isinstance(series.dtype, numpy.dtype)
    return series.to_numpy() if is_numpy else (str(series.dtype), series.array)


def _array(encoder: Encoder, value: Any) -> bytes:
    import numpy

    dtype = value.dtype
    layout = dtype.str if dtype.names is None else dtype.descr
    head = encoder.encode((type(value).__name__, layout, value.shape))
    if dtype.hasobject:
        return framed(b"A", head + encoder.encode(value.tolist()))
    array = numpy.ascontiguousarray(value).reshape(-1)
    # Viewed as bytes, because arrays of dates have no buffer of their own type.
    content = array.view(numpy.uint8) if dtype.itemsize else b""
    return framed(b"A", head + hashed(content))
