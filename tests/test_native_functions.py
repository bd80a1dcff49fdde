"""Native functions on buffers: what they get and give, and what a broken one costs."""

from __future__ import annotations

import ctypes
import pickle
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gristmill
from gristmill import Executor, StartError, TaskTimeoutError, WorkerLostError, on, parsl
from gristmill.native import InOut, Library, LibraryError, Out, include

from compiled import Compile, compile_library, library
from stage import lives

__all__ = ["compile_library", "library"]


def test_a_buffer_goes_in_and_the_bytes_that_were_written_come_out(library: Library) -> None:
    echo, twice = library["echo"], library["twice"]
    with Executor(1) as executor:
        submit = executor.submit
        assert submit(echo, b"input").result() == b"input"
        assert submit(echo, bytearray(b"input")).result() == b"input"
        assert submit(echo, b"").result() == b""
        assert submit(twice, b"ab", capacity=4).result() == b"abab"
        assert submit(library.function("twice", capacity=4), b"ab").result() == b"abab"
        large = bytes(range(256)) * 4096
        assert submit(echo, large).result() == large
        assert list(executor.map(echo, [b"1", b"2", b"3"])) == [b"1", b"2", b"3"]


@pytest.mark.parametrize("dtype", ["f8", "f4", "i2", "u1", "c16"])
def test_an_array_goes_in_and_one_of_its_type_comes_out(library: Library, dtype: str) -> None:
    array = np.arange(12, dtype=dtype).reshape(3, 4)
    with Executor(1) as executor:
        found = executor.submit(library["echo"], array).result()
        assert (found.dtype, found.tolist()) == (array.dtype, array.ravel().tolist())
        turned = executor.submit(library["echo"], array.T).result()
        assert turned.tolist() == array.T.ravel().tolist(), "in the order of its items"
        numbers = executor.submit(library.function("count", dtype="u4"), b"    ").result()
        assert numbers.tolist() == [1]
        large = np.arange(500_000.0)
        assert executor.submit(library["echo"], large).result().tolist() == large.tolist()


@pytest.mark.parametrize("given", [[1, 2], "text", 3, None])
def test_another_input_is_an_error_that_says_what_it_takes(library: Library, given: Any) -> None:
    with (
        Executor(1) as executor,
        pytest.raises(TypeError, match=r"libown.so:echo: the input must be"),
    ):
        executor.submit(library["echo"], given).result()


def test_wrong_terms_are_errors(library: Library) -> None:
    with pytest.raises(ValueError, match="capacity"):
        library.function("echo", capacity=-1)
    with pytest.raises(TypeError):
        library.function("echo", dtype="no type")
    with pytest.raises(TypeError, match="arrays of Python objects"):
        library["echo"](np.array([object()]))
    with pytest.raises(
        LibraryError, match="3 bytes, which is no whole number of items of type float64"
    ):
        library.function("echo", dtype=float)(b"abc")


def test_statics_live_as_long_as_the_worker_and_are_those_of_all_its_functions(
    library: Library,
) -> None:
    other = pickle.loads(pickle.dumps(library))
    with Executor(1) as executor:
        found = [executor.submit(one["count"], b"    ").result()[0] for one in (library, other)]
        executor.submit(library["crash"], b"").exception()
        found.append(executor.submit(library["count"], b"    ").result()[0])
    assert found == [1, 2, 1]


def in_task(function: Any, data: bytes) -> Any:
    return function(data), gristmill.current_executor().submit(function, data).result()


@pytest.mark.parametrize("nodes", [None, 1])
def test_a_native_function_is_a_value_like_others(library: Library, nodes: int | None) -> None:
    echo = library["echo"]
    assert pickle.loads(pickle.dumps(echo))(b"here") == b"here"
    with Executor(1, nodes=None if nodes is None else on.local(nodes)) as executor:
        assert executor.submit(in_task, echo, b"a").result() == (b"a", b"a")
        assert executor.submit(lambda data: echo(data) + b"!", b"a").result() == b"a!"
        first = executor.submit(echo, b"future")
        assert executor.submit(echo, first).result() == b"future"


def test_a_call_leaves_the_interpreter_to_other_threads(library: Library) -> None:
    gate = bytearray(1)
    call = threading.Thread(target=library["await"], args=[gate], kwargs={"capacity": 0})
    call.start()
    gate[0] = 1
    call.join()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("crash", f"signal {signal.SIGABRT:d} (SIGABRT)"),
        ("segfault", f"signal {signal.SIGSEGV:d} (SIGSEGV)"),
        ("leave", "exited with code 3"),
        ("leave_at_once", "exited with code 4"),
        ("leave_thread", "the thread that ran the task has ended itself"),
        ("overflow", f"signal {signal.SIGSEGV:d} (SIGSEGV)"),
        ("lie", "libown.so:lie returned 26 bytes, but its output holds 16"),
        ("past", f"signal {signal.SIGSEGV:d} (SIGSEGV)"),
    ],
)
def test_a_broken_function_costs_its_own_task(library: Library, name: str, said: str) -> None:
    file = Library(library._path, guards=name == "past")
    with Executor(1) as executor:
        before = executor.submit(file["echo"], b"before")
        error = executor.submit(file[name], b"sixteen bytes...").exception()
        after = [executor.submit(file["echo"], b"after") for _ in range(10)]
        assert before.result() == b"before"
        assert [one.result() for one in after] == [b"after"] * 10
    assert isinstance(error, WorkerLostError)
    assert f"(libown.so:{name}) was lost" in str(error)
    assert said in str(error)


THROWING = """
#include <cstdint>
#include <stdexcept>
extern "C" uint32_t throwing(void *, uint32_t, void *) { throw std::runtime_error("no"); }
"""


def nested_call(function: Any, data: bytes) -> Any:
    """Calls a function in a task of this task, which runs in this worker while the task waits."""
    return gristmill.current_executor().submit(function, data).result()


def mapped_call(executor: Executor, function: Any) -> BaseException | None:
    """Calls a function in a map that gives each worker several calls at once."""
    try:
        list(executor.map(function, [b""] * 200))
    except WorkerLostError as error:
        return error
    return None


@pytest.mark.parametrize("place", ["task", "map", "nested"])
def test_an_exception_that_leaves_a_function_costs_its_own_task(
    compile_library: Compile, place: str
) -> None:
    throwing = Library(compile_library(THROWING, suffix=".cc"))["throwing"]
    with Executor(1) as executor:
        if place == "map":
            error = mapped_call(executor, throwing)
        elif place == "nested":
            error = executor.submit(nested_call, throwing, b"").exception()
        else:
            error = executor.submit(throwing, b"").exception()
        assert executor.submit(abs, -1).result() == 1
    assert isinstance(error, WorkerLostError)
    assert "throwing) was lost" in str(error)
    assert "SIGABRT" in str(error)
    assert "what():  no" in str(error)


def test_an_exception_that_leaves_an_initializer_says_what_it_is(compile_library: Compile) -> None:
    throwing = Library(compile_library(THROWING, suffix=".cc"))["throwing"]
    with Executor(1, initializer=throwing, initargs=(b"",)) as executor:
        error = executor.submit(abs, -1).exception()
    assert isinstance(error, StartError)
    assert "what():  no" in str(error)


FAULTS = """
#include <gristmill_call.h>
#include <cstdlib>
#include <stdexcept>
#include <unistd.h>
extern "C" {
int32_t call_throwing(gristmill_call *) { throw std::runtime_error("no"); }
int32_t call_crash(gristmill_call *) { abort(); }
int32_t call_leave(gristmill_call *) { exit(3); }
int32_t call_endless(gristmill_call *) { for (;;) pause(); }
int32_t call_null(gristmill_call *call) { call->output = nullptr; call->input = nullptr; return 0; }
void throwing() { throw std::runtime_error("no"); }
void crash() { abort(); }
void leave() { exit(3); }
void endless() { for (;;) pause(); }
int32_t fine() { return 7; }
}
"""


@pytest.mark.parametrize("prefix", ["call_", ""])
def test_a_broken_function_of_the_other_interfaces_costs_its_own_task(
    compile_library: Compile, prefix: str
) -> None:
    library = Library(compile_library(FAULTS, f"-I{include()}", suffix=".cc"))
    fine = library.declare("fine", [], ctypes.c_int32)
    for name, *said in (
        ("throwing", "SIGABRT", "what():  no", "Current thread"),
        ("crash", "SIGABRT", "Current thread"),
        ("leave", "exited with code 3"),
        ("endless",),
    ):
        given: list[bytes] = []
        function: Any = library.declare(name, [])
        if prefix:
            function, given = library.function(prefix + name, interface="call"), [b""]
        with Executor(1) as executor:
            limited = executor.options(timeout=0.3, grace=0.1) if name == "endless" else executor
            error = limited.submit(function, *given).exception()
            assert executor.submit(fine).result() == 7
        assert isinstance(error, TaskTimeoutError if name == "endless" else WorkerLostError)
        assert f"(libown.so:{prefix}{name})" in str(error)
        assert all(text in str(error) for text in said), error


def test_a_function_that_loses_its_pointers_harms_nothing(compile_library: Compile) -> None:
    library = Library(compile_library(FAULTS, f"-I{include()}", suffix=".cc"))
    with Executor(1) as executor:
        null = library.function("call_null", interface="call")
        assert executor.submit(null, b"ab").result() == b""


def test_a_child_that_a_function_leaves_ends_with_the_executor(library: Library) -> None:
    left = library.function("left_child", capacity=4)
    with Executor(1) as executor:
        child = int.from_bytes(executor.submit(left, b"").result(), sys.byteorder)
        assert executor.submit(library["echo"], b"on").result() == b"on"
        assert lives(child)
    while lives(child):
        time.sleep(0.001)


THREADED = """
#include <pthread.h>
#include <stdint.h>
#include <unistd.h>
static void *stay(void *unused) { for (;;) pause(); }
uint32_t start(void *in, uint32_t size, void *out) {
    pthread_t thread;
    *(char *)out = (char)pthread_create(&thread, 0, stay, 0);
    return 1;
}
"""


def test_a_thread_that_a_function_leaves_holds_no_worker(compile_library: Compile) -> None:
    start = Library(compile_library(THREADED, "-pthread"))["start"]
    with Executor(1) as executor:
        assert [executor.submit(start, b".").result() for _ in range(3)] == [b"\0"] * 3
        assert executor.submit(abs, -1).result() == 1


def test_bytes_of_any_size_go_in_and_come_out_again_and_again(library: Library) -> None:
    echo, twice = library["echo"], library.function("twice", capacity=600)
    with Executor(1) as executor:
        for size in (0, 1, 255, 256, 257, 5_000, 20_000, 70_000):
            given = bytes(range(256)) * (size // 256) + bytes(size % 256)
            found = [executor.submit(echo, given).result() for _ in range(3)]
            assert found == [given] * 3
        assert [executor.submit(twice, b"ab").result() for _ in range(3)] == [b"abab"] * 3
        calls = [bytes([number % 256]) * (number % 300) for number in range(2_000)]
        assert list(executor.map(echo, calls)) == calls


def test_a_function_that_lies_later_costs_its_own_task(library: Library) -> None:
    later = library["lie_later"]
    with Executor(1) as executor:
        assert [executor.submit(later, b"ok").result() for _ in range(3)] == [b"ok"] * 3
        error = executor.submit(later, b"!").exception()
        assert executor.submit(later, b"ok").result() == b"ok"
    assert isinstance(error, WorkerLostError)
    assert "libown.so:lie_later returned 11 bytes, but its output holds 1" in str(error)


def test_guarded_calls_give_the_same_results(library: Library) -> None:
    guarded = Library(library._path, guards=True)
    array = np.arange(1000.0)
    for size in (0, 1, 4095, 4096, 4097):
        assert guarded["echo"](bytes(size)) == bytes(size)
    assert guarded["echo"](array).tolist() == array.tolist()


CALLS = """
#include <gristmill_call.h>
#include <string.h>
int32_t past(gristmill_call *call) {
    ((volatile char *)call->output)[call->output_capacity] = 1;
    return 0;
}
int32_t past_own(gristmill_call *call) {
    ((volatile char *)call->allocate(call, 5000))[5000] = 1;
    return 0;
}
int32_t echo(gristmill_call *call) {
    if (call->input_size > 4 && !call->allocate(call, call->input_size)) return 1;
    memcpy(call->output, call->input, call->input_size);
    call->output_size = call->input_size;
    return 0;
}
int32_t add(int32_t *numbers, int64_t count) { numbers[count] = 1; return 0; }
void look(const int32_t *numbers) {}
"""


def test_guards_are_put_behind_the_outputs_of_every_interface(compile_library: Compile) -> None:
    file = compile_library(CALLS, f"-I{include()}")
    guarded = Library(file, guards=True)
    echo = guarded.function("echo", interface="call", capacity=4)
    for given in (b"", b"abcd", bytes(5000)):
        assert echo(given) == given
    add = guarded.declare("add", [InOut("i4"), ctypes.c_int64], ctypes.c_int32)
    fill = guarded.declare("add", [Out("i4"), ctypes.c_int64], ctypes.c_int32)
    given = np.arange(6, dtype="i4").reshape(2, 3)
    status, changed = add(given, 4)
    assert (status, changed.tolist(), given[1, 1]) == (0, [[0, 1, 2], [3, 1, 5]], 4)
    assert fill(3, 0)[1].tolist() == [1, 0, 0]
    assert guarded.declare("look", [Out("i4")])((0, 2)).shape == (0, 2)
    with Executor(1) as executor:
        for function, arguments in (
            (guarded.function("past", interface="call"), [b"sixteen bytes..."]),
            (guarded.function("past_own", interface="call"), [b""]),
            (add, [given, 6]),
            (fill, [1000, 1000]),
        ):
            lost = executor.submit(function, *arguments).exception()
            assert isinstance(lost, WorkerLostError)
            assert "SIGSEGV" in str(lost)


def test_an_output_that_no_memory_holds_is_an_error_that_names_its_function(
    library: Library,
) -> None:
    guarded = Library(library._path, guards=True)
    for one in (library, guarded):
        with pytest.raises(MemoryError, match=rf"^libown.so:echo: .* of {2**62} bytes"):
            one["echo"](b"some", capacity=2**62)
    with pytest.raises(MemoryError, match=r"^libown.so:echo: .* of \d+ bytes"):
        library.function("echo", capacity=2**62)(b"some")


def test_a_function_that_does_not_return_is_stopped(library: Library) -> None:
    with Executor(1) as executor:
        stopped = executor.options(timeout=0.3, grace=0.1).submit(library["endless"], b"")
        assert isinstance(stopped.exception(), TaskTimeoutError)
        assert executor.submit(library["echo"], b"on").result() == b"on"


def append(path: str) -> None:
    with open(path, "a") as file:
        file.write("run\n")


def test_a_function_that_forks_leaves_no_second_worker(library: Library, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with Executor(1) as executor:
        executor.submit(library["forked"], b"").exception()
        for future in [executor.submit(append, str(log)) for _ in range(50)]:
            future.result()
    assert log.read_text() == "run\n" * 50


def setup() -> dict[str, int]:
    return {"a": 1}


def test_native_functions_run_in_contexts_leases_and_parsl_apps(library: Library) -> None:
    echo = library["echo"]
    with Executor(1) as executor:
        bound = executor.options(context=gristmill.Context(setup))
        assert bound.submit(echo, b"context").result() == b"context"
    with gristmill.Lease(max_workers=1) as lease:
        assert lease.submit(echo, b"lease").result() == b"lease"
    app = parsl.python_app(echo)
    executors = [parsl.HighThroughputExecutor(max_workers_per_node=1)]
    with parsl.load(parsl.Config(executors=executors)):
        assert app(b"app").result() == b"app"
