"""Native functions with the interface of ``gristmill_call.h``."""

from __future__ import annotations

import os
import time
from concurrent.futures import CancelledError

import numpy as np
import pytest

import gristmill
from gristmill import Executor, TaskTimeoutError, WorkerLostError, on
from gristmill.native import Function, Library, NativeError, include

from compiled import Compile, compile_library

__all__ = ["compile_library"]

SOURCE = """
#include <gristmill_call.h>
#include <unistd.h>

int32_t echo(gristmill_call *call) {
    if (call->size < sizeof *call) return -1;
    if (call->output_capacity < call->input_size) return gristmill_fail(call, 7, "it does not fit");
    memcpy(call->output, call->input, call->input_size);
    call->output_size = call->input_size;
    return 0;
}
int32_t grown(gristmill_call *call) {
    for (uint64_t size = 1; size <= 3 * call->input_size; size *= 2)
        if (!call->allocate(call, size)) return 1;
    if (call->allocate(call, UINT64_MAX)) return 2;
    char *output = call->allocate(call, 3 * call->input_size);
    for (int copy = 0; copy < 3; copy++)
        memcpy(output + copy * call->input_size, call->input, call->input_size);
    call->output_size = call->output_capacity;
    return 0;
}
int32_t silent(gristmill_call *call) { return -5; }
int32_t wordy(gristmill_call *call) {
    memset(call->error, 'x', call->error_capacity);
    return 1;
}
int32_t lie(gristmill_call *call) { call->output_size = call->output_capacity + 1; return 0; }
int32_t patient(gristmill_call *call) {
    int64_t rounds = 0;
    while (!call->is_cancelled(call)) { usleep(100); rounds++; }
    return gristmill_fail(call, rounds > 0, "it was told to stop");
}
int32_t left(gristmill_call *call) {
    uint64_t found[2] = {call->deadline, call->time_left(call)};
    memcpy(call->output, found, sizeof found);
    call->output_size = sizeof found;
    return 0;
}
int32_t in_time(gristmill_call *call) {
    uint64_t first = call->time_left(call);
    for (uint64_t now = first; now > first - 1000000; usleep(100)) {
        uint64_t next = call->time_left(call);
        if (next > now) return gristmill_fail(call, 1, "it grows");
        now = next;
    }
    memcpy(call->output, "what was found by then", 22);
    call->output_size = 22;
    return 0;
}
"""


@pytest.fixture
def library(compile_library: Compile) -> Library:
    return Library(
        compile_library(
            SOURCE, f"-I{include()}", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"
        )
    )


def whole(library: Library, name: str, **terms: object) -> Function:
    return library.function(name, interface="call", **terms)  # type: ignore[arg-type]


def test_a_call_has_an_input_and_an_output(library: Library) -> None:
    array = np.arange(1000.0)
    with Executor(1) as executor:
        assert executor.submit(whole(library, "echo"), b"input").result() == b"input"
        assert executor.submit(whole(library, "echo"), b"").result() == b""
        assert executor.submit(whole(library, "echo"), array).result().tolist() == array.tolist()
        assert list(executor.map(whole(library, "echo"), [b"1", b"2"])) == [b"1", b"2"]


def test_a_function_asks_for_the_output_that_it_needs(library: Library) -> None:
    with Executor(1) as executor:
        for size in (0, 1, 100, 1_000_000):
            given = bytes(range(256)) * (size // 256) + bytes(size % 256)
            assert executor.submit(whole(library, "grown"), given).result() == 3 * given
        numbers = executor.submit(whole(library, "grown", dtype="u2"), np.array([1, 2], "u2"))
        assert numbers.result().tolist() == [1, 2] * 3


@pytest.mark.parametrize(
    ("name", "status", "said"),
    [
        ("echo", 7, "libown.so:echo returned status 7: it does not fit"),
        ("silent", -5, "libown.so:silent returned status -5"),
        ("wordy", 1, "x" * 1023),
    ],
)
def test_a_status_is_an_error_with_the_text_of_the_function(
    library: Library, name: str, status: int, said: str
) -> None:
    with Executor(1) as executor:
        error = executor.submit(whole(library, name, capacity=1), b"ab").exception()
    assert isinstance(error, NativeError)
    assert (error.status, error.code) == (status, "native_failed")
    assert str(error).endswith(said)


def test_a_function_learns_that_it_is_to_stop(library: Library) -> None:
    patient = whole(library, "patient")
    with Executor(1) as executor:
        process = executor.submit(os.getpid).result()
        stopped = executor.options(timeout=0.2, grace=60).submit(patient, b"")
        assert isinstance(stopped.exception(), TaskTimeoutError)
        cancelled = executor.options(grace=60).submit(patient, b"")
        while not cancelled.running():
            time.sleep(0.001)
        assert cancelled.cancel(running=True)
        with pytest.raises(CancelledError):
            cancelled.result()
        assert executor.submit(os.getpid).result() == process, "no worker was killed"


NO_LIMIT = 2**64 - 1


def own_limits(function: Function, timeouts: list[float | None]) -> list[list[int]]:
    """Returns what the function finds in tasks with these timeouts, submitted by this one, and in this one itself."""
    executor = gristmill.current_executor()
    futures = [executor.options(timeout=one).submit(function, b"") for one in timeouts]
    return [future.result().tolist() for future in futures] + [function(b"").tolist()]


@pytest.mark.parametrize("options", ["1", "1, nodes=on.local(1)"])
def test_a_function_knows_the_time_that_its_task_has_left(library: Library, options: str) -> None:
    left = whole(library, "left", capacity=16, dtype="u8")
    executor = eval(f"Executor({options})", {"Executor": Executor, "on": on})
    with executor:
        submit, limited = executor.submit, executor.options(timeout=1000).submit
        assert submit(left, b"").result().tolist() == [NO_LIMIT, NO_LIMIT]
        for _ in range(2):
            before = time.monotonic_ns()
            deadline, found = limited(left, b"").result().tolist()
            assert 0 < found <= 1000 * 10**9
            assert before <= deadline - 1000 * 10**9 <= time.monotonic_ns()
        assert submit(left, b"").result().tolist() == [NO_LIMIT, NO_LIMIT], "each has its own"
        inner, other, outer = limited(own_limits, left, [500, None]).result()
        assert inner[1] <= 500 * 10**9
        assert other == [NO_LIMIT, NO_LIMIT]
        assert 500 * 10**9 < outer[1] <= 1000 * 10**9
    assert left(b"").tolist() == [NO_LIMIT, NO_LIMIT], "in the program"


def test_a_function_ends_with_what_it_has_before_its_time_is_over(library: Library) -> None:
    in_time = whole(library, "in_time", capacity=22)
    with Executor(1) as executor:
        result = executor.options(timeout=1000).submit(in_time, b"").result()
    assert result == b"what was found by then"


def test_an_output_that_is_too_large_costs_the_worker(library: Library) -> None:
    with Executor(1) as executor:
        error = executor.submit(whole(library, "lie"), b"ab").exception()
        assert executor.submit(whole(library, "echo"), b"ab").result() == b"ab"
    assert isinstance(error, WorkerLostError)
    assert "libown.so:lie returned 3 bytes, but its output holds 2" in str(error)


def test_an_interface_has_a_name(library: Library) -> None:
    with pytest.raises(ValueError, match="interface"):
        library.function("echo", interface="other")
