"""Buffers that workers keep for native functions."""

from __future__ import annotations

import ctypes
import functools
import gc
import os
import pickle
import weakref
from typing import Any

import numpy as np
import pytest

import gristmill
from gristmill import Executor, WorkerLostError, _native, on
from gristmill.native import In, InOut, Kept, Library, Out, include
from library_tasks import note_sizes, noted_sizes, resident_kib

from compiled import Compile, compile_library

__all__ = ["compile_library"]

SOURCE = """
#include <gristmill_call.h>
#include <stdlib.h>

void product(const double *matrix, const double *x, double *y, size_t n) {
    for (size_t i = 0; i < n; i++) {
        y[i] = 0;
        for (size_t j = 0; j < n; j++) y[i] += matrix[i * n + j] * x[j];
    }
}
double first(const double *matrix) { return matrix[0]; }
uint32_t total(void *in, uint32_t size, void *out) {
    uint32_t sum = 0;
    for (uint32_t i = 0; i < size; i++) sum += ((unsigned char *)in)[i];
    memcpy(out, &sum, sizeof sum);
    return sizeof sum;
}
uint32_t crash(void *in, uint32_t size, void *out) { abort(); }
int32_t joined(gristmill_call *call) {
    uint64_t size = call->input_size;
    for (uint64_t i = 0; i < call->kept_count; i++) size += call->kept[i].size;
    char *output = call->allocate(call, size);
    if (!output) return 1;
    memcpy(output, call->input, call->input_size);
    output += call->input_size;
    for (uint64_t i = 0; i < call->kept_count; i++) {
        memcpy(output, call->kept[i].data, call->kept[i].size);
        output += call->kept[i].size;
    }
    call->output_size = size;
    return 0;
}
"""
#: More than an engine of a small machine keeps of definitions.
SIZE = 5 << 20
EXECUTORS = ["1", "1, start='spawn'", "1, nodes=on.local(1)"]


@pytest.fixture
def library(compile_library: Compile) -> Library:
    return Library(compile_library(SOURCE, f"-I{include()}"))


def opened(options: str) -> Executor:
    executor: Executor = eval(f"Executor({options})", {"Executor": Executor, "on": on})
    return executor


def declared(library: Library, matrix: Kept) -> Any:
    return library.declare("product", [matrix, In(float), Out(float), ctypes.c_size_t])


@pytest.mark.parametrize("options", EXECUTORS)
def test_a_worker_is_sent_a_buffer_once_for_all_functions_that_have_it(
    library: Library, options: str
) -> None:
    data = np.random.default_rng(7).random((900, 900))
    assert data.nbytes > SIZE
    matrix, vector = Kept(data, name="matrix"), np.ones(900)
    product = declared(library, matrix)
    first = library.declare("first", [matrix], ctypes.c_double)
    joined = library.function("joined", interface="call", kept=[matrix])
    with opened(options) as executor:
        submit = executor.submit

        def use() -> None:
            for _ in range(2):
                found = submit(product, vector, 900, 900).result()
                assert np.allclose(found, data @ vector)
                assert submit(first).result() == data[0, 0]
                assert submit(joined, b"").result() == data.tobytes()
                assert submit(lambda: matrix.array.tolist()).result() == data.tolist()
            sizes = [size for size in submit(noted_sizes).result() if size > SIZE]
            assert len(sizes) == 1, "once"

        submit(note_sizes).result()
        use()
        # The next worker has nothing of it.
        assert isinstance(submit(library["crash"], b"").exception(), WorkerLostError)
        submit(note_sizes).result()
        use()


@pytest.mark.parametrize("options", EXECUTORS)
def test_every_interface_takes_a_kept_buffer(library: Library, options: str) -> None:
    table, more = Kept(b"\1\2\3"), Kept(bytearray(b"ab"), name="more")
    total = library.function("total", capacity=4, dtype="u4")
    joined = library.function("joined", interface="call", kept=[table, more])
    product = library.declare("product", [In(float), InOut(float), Out(float), ctypes.c_size_t])
    identity = Kept(np.eye(2))
    with opened(options) as executor:
        submit = executor.submit
        assert submit(lambda: total(table).tolist()).result() == [6], "as the input"
        assert submit(joined, b"in").result() == b"in\1\2\3ab", "beside the input"
        found = submit(lambda x: product(identity, x, 2, 2)[1].tolist(), np.array([3.0, 4.0]))
        assert found.result() == [3.0, 4.0], "as an array"
        assert submit(total, table).result().tolist() == [6]
        assert submit(product, identity, np.ones(2), 2, 2).result()[1].tolist() == [1.0, 1.0]
        assert list(executor.map(lambda by: total(table)[0] * by, range(3))) == [0, 6, 12]


def uses(given: Any) -> int:
    """Returns how often this worker has used the buffer that it was given, in a list or alone."""
    kept = given[0] if isinstance(given, list) else given
    kept.uses = getattr(kept, "uses", 0) + 1
    return int(kept.uses)


def size_of_arguments(kept: Kept) -> tuple[int, int]:
    """Returns what a task of this task found, and the bytes of its arguments, 0 for less than 1 KiB."""
    found = gristmill.current_executor().submit(lambda given: given[0].nbytes, [kept]).result()
    return found, _native.nested_size(False)


@pytest.mark.parametrize("options", EXECUTORS)
def test_an_argument_names_a_buffer_that_the_worker_has(options: str) -> None:
    kept, other = Kept(b"bytes" * 100), Kept(b"others")
    with opened(options) as executor:
        submit = executor.submit
        assert [submit(uses, kept).result() for _ in range(3)] == [1, 2, 3]
        assert submit(lambda: uses(kept)).result() == 4, "the functions of a worker share it"
        assert submit(uses, [kept, other, kept]).result() == 5
        assert submit(lambda given: uses(given), given=kept).result() == 6
        assert list(executor.map(uses, [kept, kept])) == [7, 8]
        assert submit(uses, other).result() == 1
        assert submit(len, [1, 2]).result() == 2


def test_a_task_names_the_buffers_among_the_arguments_of_its_tasks() -> None:
    kept = Kept(bytes(50_000))
    with Executor(1) as executor:
        for _ in range(2):
            assert executor.submit(size_of_arguments, kept).result() == (50_000, 0)


def test_what_stands_for_a_function_keeps_neither_it_nor_the_buffer_alive() -> None:
    kept = Kept(b"bytes")
    function = functools.partial(uses)
    gone = weakref.ref(kept), weakref.ref(function)
    with Executor(1) as executor:
        assert executor.submit(function, kept).result() == 1
        gc.disable()
        try:
            del function, kept
            assert [one() for one in gone] == [None, None]
        finally:
            gc.enable()
        assert executor.submit(abs, -1).result() == 1


def in_nested_task(function: Any, vector: Any) -> list[Any]:
    submit = gristmill.current_executor().submit
    futures = [submit(function, vector, 2, 2), submit(lambda: function(vector, 2, 2))]
    return [future.result().tolist() for future in futures]


@pytest.mark.parametrize("options", ["2", "2, nodes=on.local(2)"])
def test_tasks_submit_functions_with_a_buffer_that_they_were_sent(
    library: Library, options: str
) -> None:
    product = declared(library, Kept(np.array([[1.0, 2.0], [3.0, 4.0]])))
    vector = np.array([1.0, 1.0])
    with opened(options) as executor:
        assert executor.submit(in_nested_task, product, vector).result() == [[3, 7], [3, 7]]
        captured = executor.submit(lambda: in_nested_task(product, vector))
        assert captured.result() == [[3, 7], [3, 7]]


def test_a_buffer_is_what_the_data_was_when_it_was_made(library: Library) -> None:
    data = np.array([1.0, 2.0])
    kept = Kept(data, name="data")
    data[0] = 7.0
    assert (kept.name, kept.nbytes, kept.array.tolist()) == ("data", 16, [1.0, 2.0])
    assert not kept.array.flags.writeable
    assert library.declare("first", [kept], ctypes.c_double)() == 1.0, "in the program"
    again = pickle.loads(pickle.dumps(kept))
    assert (again.name, again.array.tolist()) == ("data", [1.0, 2.0])


@pytest.mark.parametrize(
    "data",
    [
        np.arange(12, dtype="i2").reshape(3, 4).T,
        np.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")]),
        np.array(["2026-01-01"], dtype="M8[D]"),
        np.array(3.0),
        np.empty((0, 3)),
    ],
)
def test_an_array_keeps_its_type_and_its_shape(data: Any) -> None:
    for kept in (Kept(data), pickle.loads(pickle.dumps(Kept(data)))):
        assert (kept.array.dtype, kept.array.shape) == (data.dtype, data.shape)
        assert kept.array.tolist() == data.tolist()


def test_wrong_data_and_wrong_uses_are_errors_at_once(library: Library) -> None:
    for wrong in ("text", 3, [1.0]):
        with pytest.raises(TypeError, match="must be a buffer such as bytes or a numpy array"):
            Kept(wrong)
    with pytest.raises(TypeError, match="array of Python objects"):
        Kept(np.array([object()]))
    with pytest.raises(TypeError, match="name must be a text"):
        Kept(b"", name=1)  # type: ignore[arg-type]
    kept = Kept(b"12")
    with pytest.raises(ValueError, match='interface="call"'):
        library.function("total", kept=[kept])
    for several in (kept, [b"12"]):
        with pytest.raises(TypeError, match="kept must be a list of Kept"):
            library.function("joined", interface="call", kept=several)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="takes 3 arguments, not 4"):
        declared(library, kept)(kept, np.ones(1), 1, 1)


def test_the_buffers_of_a_program_have_a_bound_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    gc.collect()
    with pytest.raises(MemoryError, match=f"a kept buffer of {2**50} bytes"):
        Kept(np.broadcast_to(np.zeros(1, "u1"), (2**50,)))
    # As on a machine where the limit for each CPU is 1,000,000 bytes.
    monkeypatch.setattr(_native, "cpu_count", lambda: 4)
    monkeypatch.setattr(_native, "memory_sizes", lambda: (32_000_000, 32_000_000))
    kept = [Kept(bytes(400_000)), Kept(bytes(400_000))]
    with pytest.raises(MemoryError, match="beside others of 800000 bytes"):
        Kept(bytes(400_000))
    kept.pop()
    assert Kept(bytes(400_000)).nbytes == 400_000, "there is room again"


def test_a_buffer_that_the_program_drops_leaves_its_workers(library: Library) -> None:
    # An allocation of more than 32 MiB goes back to the system as soon as it is freed.
    size = 33 << 20
    with Executor(1) as executor:
        total = library.function("total", capacity=4, dtype="u4")

        def used() -> int:
            kept = Kept(bytes(size))
            assert executor.submit(lambda: total(kept)[0]).result() == 0
            return executor.submit(resident_kib).result()

        with_it = used()
        executor.submit(os.getpid).result()
        without = executor.submit(resident_kib).result()
    assert with_it - without > size >> 11
