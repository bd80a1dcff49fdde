"""Native functions in safe Rust, by the attribute of ``crates/function``."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from concurrent.futures import CancelledError
from pathlib import Path

import numpy as np
import pytest

from gristmill import Executor, on
from gristmill.native import Function, Kept, Library, NativeError

from compiled import cargo_build, rust_crate

pytestmark = [
    pytest.mark.skipif(shutil.which("cargo") is None, reason="there is no cargo"),
    # Its crates are compiled first.
    pytest.mark.timeout(600),
]


@pytest.fixture(scope="module")
def library() -> Library:
    folder = cargo_build("--example", "native_functions")
    return Library(folder / "examples" / "libnative_functions.so")


def whole(library: Library, name: str, **terms: object) -> Function:
    return library.function(name, interface="call", **terms)  # type: ignore[arg-type]


@pytest.mark.parametrize("options", ["1", "1, nodes=on.local(1)"])
def test_a_function_in_rust_is_one_like_others(library: Library, options: str) -> None:
    means, parsed = whole(library, "means"), whole(library, "parsed", dtype=float)
    numbers = np.arange(1000.0)
    executor = eval(f"Executor({options})", {"Executor": Executor, "on": on})
    with executor:
        submit = executor.submit
        assert submit(means, numbers).result().tolist() == (numbers[:-1] + 0.5).tolist()
        assert submit(means, np.array([])).result().tolist() == []
        assert submit(parsed, b"1 2.5 -3").result().tolist() == [1.0, 2.5, -3.0]
        assert submit(parsed, b"").result().tolist() == []
        found = list(executor.map(means, [np.array([0.0, n]) for n in range(100)]))
        assert [one.tolist() for one in found] == [[n / 2] for n in range(100)]


def test_a_function_in_rust_has_the_kept_buffers_and_the_limit_of_its_task(
    library: Library,
) -> None:
    state = whole(library, "state", kept=[Kept(b"first"), Kept(b"second")])
    with Executor(1) as executor:
        assert executor.submit(state, b"").result() == b"\0firstsecond"
        limited = executor.options(timeout=1000).submit(state, b"")
        assert limited.result() == b"\1firstsecond"


@pytest.mark.parametrize(
    ("name", "given", "status", "said"),
    [
        ("parsed", b"1 two", 1, "libnative_functions.so:parsed returned status 1: invalid float"),
        ("parsed", b"\xff", 1, "invalid utf-8"),
        ("means", b"123456789", 1, "the input has 9 bytes, which is no whole number of items"),
        ("greedy", b"abc", 1, "it returned 4 items, but its output holds 3"),
        ("picked", b"\7", 2, "panicked: index out of bounds: the len is 1 but the index is 7"),
    ],
)
def test_an_error_or_a_panic_is_that_of_the_task_and_the_worker_lives_on(
    library: Library, name: str, given: bytes, status: int, said: str
) -> None:
    function = whole(library, name)
    with Executor(1) as executor:
        process = executor.submit(os.getpid).result()
        error = executor.submit(function, given).exception()
        assert executor.submit(whole(library, "picked"), b"\1a").result() == b"a"
        assert executor.submit(os.getpid).result() == process
    assert isinstance(error, NativeError)
    assert error.status == status
    assert said in str(error)


def test_a_function_in_rust_learns_that_it_is_to_stop(library: Library) -> None:
    with Executor(1) as executor:
        process = executor.submit(os.getpid).result()
        cancelled = executor.options(grace=60).submit(whole(library, "patient"), b"")
        while not cancelled.running():
            time.sleep(0.001)
        assert cancelled.cancel(running=True)
        with pytest.raises(CancelledError):
            cancelled.result()
        assert executor.submit(os.getpid).result() == process, "no worker was killed"


def compile_errors(folder: Path, source: str) -> str:
    """Returns what the compiler says about a library."""
    file = folder / "own.rs"
    file.write_text(f"use gristmill_function::{{Call, function}};\n{source}\n")
    command = ["rustc", "--crate-type=cdylib", *rust_crate(), str(file), "--out-dir", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else ""


@pytest.mark.parametrize(
    ("source", "said", "line"),
    [
        (
            "#[function]\nfn f(call: &mut Call) -> Result<usize, String> { Ok(1) }",
            "this native function returns `()` or `Result<(), E>`, where `E` is `Display`",
            3,
        ),
        (
            "#[function]\nfn f(a: &[u8], b: &mut [u8]) -> u8 { 1 }",
            "this native function returns `usize` or `Result<usize, E>`",
            3,
        ),
        (
            "#[function]\nfn f(a: &[char], b: &mut [u8]) -> usize { 1 }",
            "`char` is no type of the items of a buffer",
            3,
        ),
        (
            "#[function]\nasync fn f(call: &mut Call) {}",
            "a native function is not `async`: its task ends when it returns",
            3,
        ),
        (
            "#[function]\nfn f(call: &mut Call) {\n"
            "let output = call.output(); call.allocate(8).ok(); output[0] = 1; }",
            "cannot borrow `*call` as mutable more than once at a time",
            4,
        ),
        (
            "#[function]\nfn f(call: &mut Call) {\n"
            "std::thread::scope(|scope| { scope.spawn(|| call.is_cancelled()); }); }",
            "cannot be shared between threads safely",
            4,
        ),
        (
            "static KEPT: std::sync::Mutex<&[u8]> = std::sync::Mutex::new(&[]);\n"
            "#[function]\nfn f(call: &mut Call) {\n*KEPT.lock().unwrap() = call.input(); }",
            "borrowed data escapes outside of function",
            5,
        ),
    ],
)
def test_a_mistake_is_an_error_of_the_compiler_at_its_place(
    tmp_path: Path, source: str, said: str, line: int
) -> None:
    found = compile_errors(tmp_path, source)
    assert said in found
    assert f"own.rs:{line}:" in found, found


def test_a_function_under_a_condition_is_exported_under_it(tmp_path: Path) -> None:
    source = """
    #[function] #[cfg(any())] fn left_out(call: &mut Call) { absent() }
    #[function] #[cfg(all())] fn r#type(call: &mut Call) {}
    #[function] const fn one(_: &[i8], _: &mut [f32]) -> usize { 0 }
    """
    assert compile_errors(tmp_path, source) == ""
    assert set(Library(tmp_path / "libown.so")) >= {"type", "one"}
    assert "left_out" not in Library(tmp_path / "libown.so")
