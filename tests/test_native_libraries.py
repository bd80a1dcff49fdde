"""Libraries of native functions: what the program is told when it makes one, and how workers load them."""

from __future__ import annotations

import os
import pickle
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gristmill import Executor, TaskTimeoutError, WorkerLostError, on
from gristmill.native import Library, LibraryError
from library_tasks import in_nested_tasks, note_sizes, noted_sizes
from test_functions import resident_kib

from compiled import SOURCE, Compile, compile_library, library

__all__ = ["compile_library", "library"]

#: A function that returns the number that the library was compiled with.
VERSION = """
#include <stdint.h>
uint32_t version(void *in, uint32_t size, void *out) { *(char *)out = VERSION; return 1; }
"""


def test_a_library_names_its_functions(library: Library) -> None:
    assert library.name == "libown.so"
    assert set(library.functions) >= {"echo", "twice", "count"}
    assert list(library) == sorted(library)
    assert len(library) == len(library.functions)
    assert "echo" in library
    assert "version" not in library


def test_a_file_that_is_no_library_of_this_machine_is_refused(
    tmp_path: Path, compile_library: Compile
) -> None:
    content = compile_library(VERSION, "-DVERSION=1").read_bytes()
    other = content[:18] + b"\x15\0" + content[20:]
    executable = shutil.which("true") or sys.executable
    for wrong, said in (
        (b"#!/bin/sh\n", "not begin with the four bytes of an ELF file"),
        (b"", "not begin with the four bytes"),
        (content[: len(content) // 2], "it was cut off"),
        (content[:70], "it was cut off"),
        (other, r"another machine \(ppc64\)"),
        (Path(executable).read_bytes(), "it is an executable, not a shared library"),
    ):
        file = tmp_path / "wrong.so"
        file.write_bytes(wrong)
        with pytest.raises(LibraryError, match=f"(?s)wrong.so: .*{said}"):
            Library(file)
    with pytest.raises(LibraryError, match=r"missing\.so cannot be read: No such file"):
        Library(tmp_path / "missing.so")
    with pytest.raises(LibraryError, match="cannot be read: Is a directory"):
        Library(tmp_path)
    for nothing in (None, 3):
        with pytest.raises((TypeError, ValueError), match="path"):
            Library(nothing)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="sequence of paths"):
        Library(tmp_path, companions="libone.so")


def test_a_function_that_is_not_there_is_an_error_that_names_others(
    library: Library, compile_library: Compile
) -> None:
    with pytest.raises(LibraryError, match=r"libown.so has no function eco; it has echo"):
        library["eco"]
    with pytest.raises(LibraryError, match=r"version is a variable of libown\.so, not a function"):
        library["version"]
    with pytest.raises(LibraryError, match="no function eco"):
        library.declare("eco", [])
    compiled = compile_library("int f(int a) { return a; }", suffix=".cc", name="libcc.so")
    with pytest.raises(LibraryError, match=r'no function f, but _Z1fi, which .* extern "C"'):
        Library(compiled)["f"]
    hidden = compile_library("static int f(int a) { return a; } int g;", name="libhidden.so")
    with pytest.raises(LibraryError, match="no function f: it exports none"):
        Library(hidden)["f"]


@pytest.mark.parametrize("options", ["1", "1, start='spawn'", "1, nodes=on.local(1)"])
def test_a_library_is_what_its_file_was_when_it_was_made(
    compile_library: Compile, options: str
) -> None:
    versions = []
    for number in (1, 2, 3):
        file = compile_library(VERSION, f"-DVERSION={number}", "-Wl,-soname,libown.so")
        versions.append(Library(file)["version"])
    file.unlink()
    executor = eval(f"Executor({options})", {"Executor": Executor, "on": on})
    with executor:
        for _ in range(2):
            found = [executor.submit(one, b".").result() for one in versions]
            assert found == [b"\1", b"\2", b"\3"], "three libraries of one name in one worker"


def test_a_library_brings_those_along_that_it_needs(
    tmp_path: Path, compile_library: Compile
) -> None:
    lowest = compile_library(
        "int one(void) { return 1; }", "-Wl,-soname,libone.so", name="libone.so"
    )
    middle = compile_library(
        "int one(void); int two(void) { return 2 * one(); }",
        *("-Wl,-soname,libtwo.so", f"-L{tmp_path}", "-lone"),
        name="libtwo.so",
    )
    needs = compile_library(
        "#include <stdint.h>\nint two(void);\n"
        "uint32_t f(void *in, uint32_t size, void *out) { *(char *)out = two(); return 1; }",
        *(f"-L{tmp_path}", "-ltwo"),
        name="libneeds.so",
    )
    # In any order.
    whole, lacking = Library(needs, companions=[middle, lowest]), Library(needs)
    for file in (lowest, middle, needs):
        file.unlink()
    with Executor(1) as executor:
        error = executor.submit(lacking["f"], b".").exception()
        assert isinstance(error, LibraryError)
        assert "libneeds.so needs libtwo.so, which is not on this machine" in str(error)
        assert executor.submit(whole["f"], b".").result() == b"\2"


def test_a_worker_has_one_version_of_a_companion(tmp_path: Path, compile_library: Compile) -> None:
    needing = []
    for number in (1, 2):
        companion = compile_library(
            f"int one(void) {{ return {number}; }}", "-Wl,-soname,libone.so", name="libone.so"
        )
        file = compile_library(
            "#include <stdint.h>\nint one(void);\n"
            "uint32_t f(void *in, uint32_t size, void *out) { *(char *)out = one(); return 1; }",
            *(f"-L{tmp_path}", "-lone", f"-Wl,--defsym=unused={number}"),
            name="libneeds.so",
        )
        needing.append(Library(file, companions=[companion])["f"])
    with Executor(1) as executor:
        assert executor.submit(needing[0], b".").result() == b"\1"
        with pytest.raises(
            LibraryError, match=r"brings libone\.so along, of which this process has"
        ):
            executor.submit(needing[1], b".").result()
        assert executor.submit(needing[0], b".").result() == b"\1"


def test_a_companion_that_could_not_be_loaded_keeps_no_other_version_out(
    tmp_path: Path, compile_library: Compile
) -> None:
    needing = []
    for defined in ("int no_such(void); int one(void) { return no_such(); }", "ONE"):
        companion = compile_library(
            defined, "-DONE=int one(void){return 1;}", "-Wl,-soname,libone.so", name="libone.so"
        )
        file = compile_library(
            "#include <stdint.h>\nint one(void);\n"
            "uint32_t f(void *in, uint32_t size, void *out) { *(char *)out = one(); return 1; }",
            *(f"-L{tmp_path}", "-lone", "-Wl,--unresolved-symbols=ignore-all"),
            name="libneeds.so",
        )
        needing.append(Library(file, companions=[companion])["f"])
    with Executor(1) as executor:
        with pytest.raises(LibraryError, match=r"libone\.so cannot be loaded: .*no_such"):
            executor.submit(needing[0], b".").result()
        assert executor.submit(needing[1], b".").result() == b"\1"


COUNTED = """
#include <stdint.h>
#include <unistd.h>
__attribute__((constructor)) static void begin(void) { usleep(20000); }
int next(void) { static int calls; return __atomic_add_fetch(&calls, 1, 5); }
uint32_t f(void *in, uint32_t size, void *out) { *(char *)out = next(); return 1; }
"""
NEEDING = """
#include <stdint.h>
int next(void);
uint32_t f(void *in, uint32_t size, void *out) { *(char *)out = next() + 0 * NUMBER; return NUMBER > 0; }
"""


def test_a_process_loads_a_library_once(tmp_path: Path, compile_library: Compile) -> None:
    # For the program itself, as for workers: threads that come at once, and several objects of one file.
    file = compile_library(COUNTED)
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: Library(file)["f"](b"."), range(8)))
    assert sorted(found) == [bytes([number]) for number in range(1, 9)], "one set of statics"


def test_two_libraries_in_the_program_share_a_companion(
    tmp_path: Path, compile_library: Compile
) -> None:
    shared = compile_library(
        COUNTED.replace("20000", "1"), "-Wl,-soname,libshared.so", name="libshared.so"
    )
    found = []
    for number in (1, 2):
        file = compile_library(
            NEEDING, f"-DNUMBER={number}", f"-L{tmp_path}", "-lshared", name=f"lib{number}.so"
        )
        found.append(Library(file, companions=[shared])["f"](b"."))
    assert found == [b"\1", b"\2"]


def test_a_library_has_the_name_of_its_own_file(compile_library: Compile) -> None:
    functions = []
    for name in ("libone.so", "libother.so"):
        functions.append(Library(compile_library(VERSION, "-DVERSION=1", name=name))["version"])
    with Executor(1) as executor:
        for function, name in zip(functions, ("libone.so", "libother.so"), strict=True):
            with pytest.raises(TypeError, match=f"^{name}:version: the input"):
                executor.submit(function, 3).result()


def test_a_library_of_rust_is_one_like_others(compile_library: Compile) -> None:
    source = """
    #[no_mangle]
    pub unsafe extern "C" fn reversed(input: *const u8, size: u32, output: *mut u8) -> u32 {
        let (input, output) = unsafe {
            let size = size as usize;
            (std::slice::from_raw_parts(input, size), std::slice::from_raw_parts_mut(output, size))
        };
        output.copy_from_slice(input);
        output.reverse();
        size
    }
    #[no_mangle]
    pub extern "C" fn panicking(_: *const u8, _: u32, _: *mut u8) -> u32 {
        panic!("on purpose")
    }
    """
    made = Library(compile_library(source, suffix=".rs"))
    assert {"reversed", "panicking"} <= set(made)
    with Executor(1) as executor:
        assert executor.submit(made["reversed"], b"abc").result() == b"cba"
        lost = executor.submit(made["panicking"], b"abc").exception()
        assert executor.submit(made["reversed"], b"abc").result() == b"cba"
    assert isinstance(lost, WorkerLostError)
    assert "(libown.so:panicking) was lost" in str(lost)


def test_companions_are_checked_when_the_library_is_made(
    tmp_path: Path, compile_library: Compile
) -> None:
    nameless = compile_library("int one(void) { return 1; }", name="libone.so")
    named = compile_library("int two;", "-Wl,-soname,libtwo.so", name="libtwo.so")
    with pytest.raises(LibraryError, match=r"libone.so has no DT_SONAME.*-Wl,-soname,libone.so"):
        Library(named, companions=[nameless])
    with pytest.raises(LibraryError, match="two companions have the same DT_SONAME"):
        Library(named, companions=[named, named])
    with pytest.raises(LibraryError, match=r"three.so cannot be read"):
        Library(named, companions=[tmp_path / "three.so"])


def test_a_symbol_that_nothing_defines_is_an_error_of_the_task(compile_library: Compile) -> None:
    file = compile_library(
        "#include <stdint.h>\nuint32_t no_such(void);\n"
        "uint32_t f(void *in, uint32_t size, void *out) { return no_such(); }"
    )
    with Executor(1) as executor:
        process = executor.submit(os.getpid).result()
        with pytest.raises(
            LibraryError, match=r"libown\.so cannot be loaded: undefined symbol: no_such"
        ):
            executor.submit(Library(file)["f"], b"").result()
        assert executor.submit(os.getpid).result() == process, "no worker is lost"


CONSTRUCTOR = """
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((constructor)) static void begin(void) { BEGIN; }
uint32_t f(void *in, uint32_t size, void *out) { return 0; }
"""


def test_a_library_that_kills_its_worker_as_it_is_loaded_costs_its_tasks_only(
    compile_library: Compile,
) -> None:
    crashing = Library(compile_library(CONSTRUCTOR, "-DBEGIN=abort()"))
    endless = Library(compile_library(CONSTRUCTOR, "-DBEGIN=for(;;)pause()"))
    with Executor(1) as executor:
        lost = executor.submit(crashing["f"], b"").exception()
        stopped = executor.options(timeout=0.5, grace=0.1).submit(endless["f"], b"").exception()
        assert executor.submit(abs, -1).result() == 1
    assert isinstance(lost, WorkerLostError)
    assert "loading library libown.so" in str(lost)
    assert isinstance(stopped, TaskTimeoutError)
    assert "loading library libown.so" in str(stopped)


#: Bytes behind a library's tables, which nothing reads. They are more than an engine of a small machine keeps of definitions.
PADDING = 5 << 20


def padded(compile_library: Compile) -> Library:
    """Returns the tests' library as one of many bytes."""
    file = compile_library(SOURCE)
    file.write_bytes(file.read_bytes() + bytes(PADDING))
    return Library(file)


@pytest.mark.parametrize("options", ["1", "1, start='spawn'", "1, nodes=on.local(1)"])
def test_a_worker_is_sent_a_library_once_for_all_of_its_functions(
    compile_library: Compile, options: str
) -> None:
    library = padded(compile_library)
    echo, twice = library["echo"], library.function("twice", capacity=2)
    executor = eval(f"Executor({options})", {"Executor": Executor, "on": on})
    with executor:
        submit = executor.submit
        submit(note_sizes).result()
        for number in (b"1", b"2", b"3"):
            assert submit(echo, number).result() == number
            assert submit(twice, number).result() == 2 * number
            assert submit(lambda data: echo(twice(data)), number).result() == 2 * number
        large = [size for size in submit(noted_sizes).result() if size > PADDING]
        assert len(large) == 1

        # The next worker has nothing of it.
        assert isinstance(submit(library["crash"], b"").exception(), WorkerLostError)
        submit(note_sizes).result()
        assert submit(echo, b"4").result() == b"4"
        assert submit(twice, b"5").result() == b"55"
        assert sum(size > PADDING for size in submit(noted_sizes).result()) == 1


def test_libraries_share_the_bytes_of_a_companion(tmp_path: Path, compile_library: Compile) -> None:
    shared = compile_library(
        COUNTED.replace("20000", "1"), "-Wl,-soname,libshared.so", name="libshared.so"
    )
    shared.write_bytes(shared.read_bytes() + bytes(PADDING))
    with Executor(1) as executor:
        executor.submit(note_sizes).result()
        found = []
        for number in (1, 2):
            file = compile_library(
                NEEDING, f"-DNUMBER={number}", f"-L{tmp_path}", "-lshared", name=f"lib{number}.so"
            )
            function = Library(file, companions=[shared])["f"]
            found.append(executor.submit(function, b".").result())
        assert found == [b"\1", b"\2"]
        assert sum(size > PADDING for size in executor.submit(noted_sizes).result()) == 1


@pytest.mark.parametrize("options", ["2", "2, nodes=on.local(2)"])
def test_tasks_submit_functions_of_a_library_that_they_were_sent(
    compile_library: Compile, options: str
) -> None:
    library = padded(compile_library)
    echo = library["echo"]
    executor = eval(f"Executor({options})", {"Executor": Executor, "on": on})
    with executor:
        submit = executor.submit
        assert submit(in_nested_tasks, echo, b"1").result() == [b"1", b"1!"]
        assert submit(lambda: in_nested_tasks(echo, b"2")).result() == [b"2", b"2!"]
        assert submit(echo, b"3").result() == b"3"


def test_an_argument_holds_a_library_as_it_holds_a_large_array(
    compile_library: Compile,
) -> None:
    echo = padded(compile_library)["echo"]
    buffers: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(echo, 5, buffer_callback=buffers.append)
    assert len(pickled) < 1000
    assert len(buffers) == 1
    assert pickle.loads(pickled, buffers=buffers)(b"here") == b"here"
    with Executor(1) as executor:
        for data in (b"1", b"2"):
            assert (
                executor.submit(lambda function, data: function(data), echo, data).result() == data
            )


def test_libraries_that_the_program_drops_leave_the_engine(compile_library: Compile) -> None:
    # An allocation of more than 32 MiB goes back to the system as soon as it is freed. Memory that is shared with workers
    # is left out: one transfer, or several that overlap, lie there.
    size = 33 << 20
    file = compile_library(VERSION, "-DVERSION=1")
    content = file.read_bytes()
    with Executor(1) as executor:

        def run(number: int) -> None:
            file.write_bytes(content + bytes([number]) * size)
            assert executor.submit(Library(file)["version"], b".").result() == b"\1"

        executor.submit(os.getpid).result()
        run(1)
        with_one = resident_kib()
        for number in range(2, 5):
            run(number)
        assert resident_kib() - with_one < size >> 10
        executor.submit(os.getpid).result()
        assert with_one - resident_kib() > size >> 11, (
            "the next task of any function frees the last one"
        )
