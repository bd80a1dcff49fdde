"""Hostile payloads decode to a value or an exception; sent values come back equal."""

import contextlib
import gc
import math
import pickle
import struct
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import gristmill
from gristmill._native import call_payload, decode_payload, encode_payload

import calls

pytestmark = pytest.mark.interpreter

# After this byte comes a pickle, which runs code by design: no check can make it harmless.
PICKLE = 33
CALL = 32
WIDE_CALL = 35
TUPLE = 12
DEFAULT = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(1 << 200), 1 << 200),
    st.floats(),
    st.complex_numbers(),
    st.text(st.characters()),  # with lone surrogates
    st.text(st.characters(codec="ascii"), max_size=300),
    st.binary(max_size=300),
)
HASHABLE = st.one_of(SCALARS, st.tuples(SCALARS, SCALARS))


def containers(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.lists(values, max_size=5),
        st.lists(values, max_size=5).map(tuple),
        st.dictionaries(HASHABLE, values, max_size=5),
    )


VALUES = st.recursive(SCALARS, containers, max_leaves=30)


@st.composite
def tangled(draw: st.DrawFn) -> Any:
    """Draws lists, dicts and tuples that refer to one another, in cycles too."""
    parts: list[Any] = [draw(VALUES)]
    for _ in range(draw(st.integers(1, 6))):
        refer = st.lists(st.sampled_from(range(len(parts))), max_size=4)
        members = [parts[index] for index in draw(refer)]
        kind = draw(st.sampled_from([list, tuple, lambda values: dict(enumerate(values))]))
        parts.append(kind(members))
    for part in parts:
        if isinstance(part, list) and draw(st.booleans()):
            part.append(parts[-1])
    return parts[-1]


def shape(value: Any) -> list[Any]:
    """Returns a value as a flat list: types, bits of numbers, and repeated references to mutable objects."""
    met: dict[int, int] = {}
    out: list[Any] = []

    def walk(value: Any) -> None:
        out.append(type(value))
        if isinstance(value, (list, dict)):
            if id(value) in met:
                out.append(("again", met[id(value)]))
                return
            met[id(value)] = len(met)
        if isinstance(value, (list, tuple)):
            out.append(len(value))
            for part in value:
                walk(part)
        elif isinstance(value, dict):
            out.append(len(value))
            for key, part in value.items():
                walk(key)
                walk(part)
        elif isinstance(value, float):
            out.append("nan" if math.isnan(value) else struct.pack("d", value))
        elif isinstance(value, complex):
            walk(value.real)
            walk(value.imag)
        else:
            out.append(value)

    walk(value)
    return out


def as_pickle_has_it(value: Any) -> list[Any]:
    return shape(pickle.loads(pickle.dumps(value, protocol=5)))


REFUSALS = (ValueError, TypeError, OverflowError)  # TypeError: a dict's key that is a list


def decode_or_refuse(payload: bytes) -> None:
    """Decodes a payload or accepts its refusal. A crash would end the test run."""
    assume(not payload.startswith(bytes([PICKLE])))
    with contextlib.suppress(*REFUSALS):
        shape(decode_payload(payload))


@DEFAULT
@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_a_value_or_refused(payload: bytes) -> None:
    decode_or_refuse(payload)


@DEFAULT
@given(st.lists(st.integers(0, 20), max_size=60).map(bytes))
def test_arbitrary_tags_and_small_counts_are_a_value_or_refused(payload: bytes) -> None:
    decode_or_refuse(payload)


@DEFAULT
@given(VALUES, st.data())
def test_a_damaged_payload_is_a_value_or_refused(value: Any, data: st.DataObject) -> None:
    payload = bytearray(encode_payload(value))
    for _ in range(data.draw(st.integers(1, 4))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(payload)))
    decode_or_refuse(bytes(payload))
    decode_or_refuse(bytes(payload[:cut]))


@DEFAULT
@given(st.lists(st.integers(0, 20), max_size=60).map(bytes), st.sampled_from([sorted, dict, max]))
def test_a_hostile_call_calls_or_refuses(payload: bytes, function: Any) -> None:
    for called in (lambda *args, **kwargs: None, function):
        with contextlib.suppress(*REFUSALS):
            call_payload(called, bytes([CALL]) + payload)
        for positional, named in ((len(payload) // 2, 0), (1, 1), (0, len(payload) // 3)):
            head = struct.pack("<BII", WIDE_CALL, positional, named)
            with contextlib.suppress(*REFUSALS):
                call_payload(called, head + payload)


@DEFAULT
@given(st.binary(max_size=60))
def test_hostile_counts_of_arguments_call_or_refuse(payload: bytes) -> None:
    for kind in (CALL, WIDE_CALL):
        with contextlib.suppress(*REFUSALS):
            call_payload(lambda *args, **kwargs: None, bytes([kind]) + payload)


def test_counts_of_arguments_allocate_no_more_than_the_payload_justifies() -> None:
    size = 1 << 16
    for positional, named in ((0xFFFF_FFFF, 0), (0, 0xFFFF_FFFF), (1 << 31, 1 << 31), (size, 1)):
        payload = struct.pack("<BII", WIDE_CALL, positional, named).ljust(size, b"\0")
        with pytest.raises(ValueError, match="more arguments"):
            call_payload(max, payload)
    nested = (
        struct.pack("<BII", WIDE_CALL, size - 100, 0)
        + bytes([TUPLE])
        + (size - 200).to_bytes(4, "little")
    )
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="more elements"):
            call_payload(max, nested.ljust(size, b"\0"))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16 * size


def test_a_name_that_is_no_string_is_refused() -> None:
    named_true = bytes([CALL, 0, 1, 1])
    assert call_payload(dict, named_true + b"\x08\x01a") == {"a": True}
    wide = struct.pack("<BII", WIDE_CALL, 0, 1) + b"\x01"
    assert call_payload(dict, wide + b"\x08\x01a") == {"a": True}
    for head in (named_true, wide):
        with pytest.raises(ValueError, match="no string"):
            call_payload(dict, head + b"\x03\x07")


def test_nested_counts_allocate_no_more_than_the_payload_justifies() -> None:
    size = 1 << 16
    heads = [bytes([TUPLE]) + (size - 300).to_bytes(4, "little") for _ in range(24)]
    payload = b"".join(heads).ljust(size, b"\0")
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="more elements"):
            decode_payload(payload)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16 * size, "one tuple of pointers, not 24"


def test_tuples_of_one_another_stay_small() -> None:
    value: Any = (1,)
    for _ in range(23):
        value = (value, value)
    payload = encode_payload(value)
    assert len(payload) < 1000
    decoded = decode_payload(payload)
    assert decoded[0] is decoded[1]


@DEFAULT
@given(st.one_of(VALUES, tangled()))
def test_the_codec_gives_what_pickle_gives(value: Any) -> None:
    assert shape(decode_payload(encode_payload(value))) == as_pickle_has_it(value)


def echo(value: Any) -> Any:
    return value


@pytest.fixture(scope="module")
def executor() -> Iterator[Any]:
    with gristmill.Executor(max_workers=1) as executor:
        yield executor


@DEFAULT
@given(value=st.one_of(VALUES, tangled()))
def test_a_value_there_and_back_is_what_pickle_gives(executor: Any, value: Any) -> None:
    assert shape(executor.submit(echo, value).result()) == as_pickle_has_it(value)


@settings(DEFAULT, max_examples=50)
@given(st.lists(SCALARS, max_size=5), st.integers(250, 600), st.integers(0, 600))
def test_a_call_with_many_arguments_is_what_was_called(
    executor: Any, values: list[Any], positional: int, named: int
) -> None:
    cycle = [*values, None]
    args = tuple(cycle[number % len(cycle)] for number in range(positional))
    kwargs = {f"k{number}": cycle[number % len(cycle)] for number in range(named)}
    called = executor.submit(calls.both, *args, **kwargs).result()
    assert shape(called) == shape((args, kwargs))


def test_refused_payloads_leave_nothing_behind() -> None:
    payload = encode_payload([[("x" * 300, [b"y"])], {"k": ["v"]}])[:-1]

    def refuse() -> None:
        with pytest.raises(ValueError, match="too early"):
            decode_payload(payload)

    refuse()
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(100):
        refuse()
    gc.collect()
    assert len(gc.get_objects()) - before < 50
