"""Arrays and buffers come back from tasks unchanged, alone or within other values."""

from __future__ import annotations

import array
from typing import Any

import pytest

from gristmill import Executor

import calls

numpy = pytest.importorskip("numpy")

#: Sizes below and above the limit of the arena, bytes.
SIZES = (800, 160_000)


def arrays(size: int) -> dict[str, Any]:
    """Returns arrays of many kinds with about this size."""
    floats = numpy.arange(size // 8, dtype=float)
    kind = numpy.dtype("i1", metadata={"enum": {"RED": 0, "BLUE": 1}})
    record = numpy.zeros(size // 12, [("a", "<i4"), ("b", "<f8")])
    return {
        "floats": floats,
        "metadata": numpy.zeros(size, kind),
        "records": record,
        "record array": record.view(numpy.recarray),
        "metadata within records": numpy.zeros(size, [("a", kind), ("b", "i1")]),
        "masked": numpy.ma.masked_less(floats, 5),
        "matrix": floats.view(numpy.matrix),
        "Fortran": numpy.asfortranarray(floats.reshape(2, -1)),
        "strides": numpy.arange(size // 4, dtype=float)[::2],
        "reversed": floats[::-1],
        "no dimensions": numpy.array(1.5),
        "empty": numpy.empty((0, 3)),
        "objects": numpy.array([{"a": 1}, None, "b"] * (size // 24), dtype=object),
        "dates": floats.astype("datetime64[s]"),
        "spans": floats.astype("timedelta64[ms]"),
        "other byte order": floats.astype(floats.dtype.newbyteorder()),
        "strings": numpy.array(["abc", "de"] * (size // 24)),
        "bytes": numpy.array([b"abc", b"de"] * (size // 6)),
        "booleans": floats > 3,
        "complex": floats * 1j,
        "half": floats.astype("e"),
        "long double": floats.astype("g"),
    }


NAMES = list(arrays(800))


def is_same(one: Any, other: Any) -> bool:
    """Returns whether two arrays are equal in everything except their memory."""
    assert type(one) is type(other)
    assert (one.dtype, one.shape) == (other.dtype, other.shape)
    assert one.dtype.metadata == other.dtype.metadata
    assert not other.flags.forc or one.flags.f_contiguous == other.flags.f_contiguous
    if one.dtype.names:
        assert all(
            one.dtype[name].metadata == other.dtype[name].metadata for name in one.dtype.names
        )
    return bool(
        numpy.ma.allequal(one, other)
        if isinstance(one, numpy.ma.MaskedArray)
        else numpy.array_equal(one, other)
    )


def write(value: Any) -> None:
    """Writes to an array."""
    if value.size:
        value.flat[0] = value.flat[-1]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", NAMES)
def test_an_array_comes_back_as_it_went(shared: Executor, name: str, size: int) -> None:
    value = arrays(size)[name]
    alone = shared.submit(calls.same, value).result()
    assert is_same(alone, value)
    within = shared.submit(calls.same, [{"held": value}, {1, 2}]).result()[0]["held"]
    assert is_same(within, value)
    assert shared.submit(lambda held: is_same(held, arrays(size)[name]), value).result()
    write(alone)
    write(within)


@pytest.mark.parametrize("size", SIZES)
def test_an_array_within_an_object_is_writable_when_it_comes_back(
    shared: Executor, size: int
) -> None:
    class Frame:
        def __init__(self, value: Any) -> None:
            self.value, self.part = value, value[10:-10]

    frame = Frame(numpy.arange(size // 8, dtype=float))
    back = shared.submit(lambda frame: frame, frame).result()
    back.value[0] = 7.0
    back.part[0] = 8.0
    assert (back.value[0], back.part[0]) == (7.0, 8.0)
    assert (frame.value[0], frame.part[0]) == (0.0, 10.0)
    # The values pass through two tasks, and through a map.
    twice = shared.submit(lambda frame: frame, shared.submit(lambda frame: frame, frame)).result()
    twice.value[0] = 1.0
    for one in shared.map(lambda frame: [frame], [frame, frame]):
        one[0].value[:] = 3.0


@pytest.mark.parametrize("size", SIZES)
def test_two_results_that_share_an_argument_do_not_share_memory(
    shared: Executor, size: int
) -> None:
    value = numpy.arange(size // 8, dtype=float)
    one, other = (shared.submit(lambda held: [held, {1}], value).result()[0] for _ in range(2))
    one[0] = 5.0
    assert (other[0], value[0]) == (0.0, 0.0)


def test_an_array_that_the_task_made_read_only_stays_so_within_a_value(shared: Executor) -> None:
    def make() -> Any:
        value = numpy.zeros(20_000)
        value.flags.writeable = False
        return [value, {1}]

    assert not shared.submit(make).result()[0].flags.writeable


def test_views_stay_read_only(shared: Executor) -> None:
    value = numpy.arange(20_000.0)
    back = shared.options(views=True).submit(lambda held: [held, {1}], value).result()[0]
    with pytest.raises(ValueError, match="read-only"):
        back[0] = 1.0


@pytest.mark.parametrize("size", SIZES)
def test_buffers_of_the_standard_library(shared: Executor, size: int) -> None:
    for value in (bytearray(size), array.array("d", bytes(size // 8 * 8))):
        back = shared.submit(calls.same, [value, {1}]).result()[0]
        assert (back, type(back)) == (value, type(value))
        back[0] = 1
    assert shared.submit(calls.same, memoryview(bytes(size))).result() == bytes(size)


@pytest.mark.parametrize("size", SIZES)
def test_a_file_that_is_mapped_comes_back_as_its_contents(
    shared: Executor, size: int, tmp_path: Any
) -> None:
    value = numpy.memmap(tmp_path / "mapped", dtype="u1", mode="w+", shape=size)
    value[:] = 5
    back = shared.submit(calls.same, value).result()
    assert numpy.array_equal(back, value)
    back[0] = 6
    assert value[0] == 5


@pytest.mark.parametrize("size", SIZES)
def test_data_frames_are_writable_when_they_come_back(shared: Executor, size: int) -> None:
    pandas = pytest.importorskip("pandas")
    rows = size // 8
    frame = pandas.DataFrame(
        {
            "number": numpy.arange(float(rows)),
            "text": ["a"] * rows,
            "kind": pandas.Categorical(["x", "y"] * (rows // 2)),
            "nullable": pandas.array([1, None] * (rows // 2), dtype="Int64"),
        }
    )
    back = shared.submit(lambda frame: frame.assign(more=1), frame).result()
    back.iloc[0, 0] = 7.0
    back.loc[1, "nullable"] = 3
    assert (back.iloc[0, 0], frame.iloc[0, 0], back.loc[1, "nullable"]) == (7.0, 0.0, 3)
    assert dict(back.dtypes.drop("more")) == dict(frame.dtypes)
