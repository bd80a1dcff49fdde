"""Shared libraries that tests compile."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from gristmill.native import Library

Compile = Callable[..., Path]
ROOT = Path(__file__).parent.parent

_COMPILERS = {
    ".c": ("cc", "-shared", "-fPIC", "-O1"),
    ".cc": ("c++", "-shared", "-fPIC", "-O1"),
    ".f90": ("gfortran", "-shared", "-fPIC", "-O1", "-Wall", "-Werror"),
    ".rs": ("rustc", "--crate-type=cdylib", "--crate-name=own", "-Cpanic=abort"),
}
#: The libraries that this process has compiled, by source and flags.
_compiled: dict[tuple[str, ...], bytes] = {}


@pytest.fixture
def compile_library(tmp_path: Path) -> Compile:
    """Returns a function that compiles C, or C++, Fortran or Rust where the suffix says so, to a shared library."""

    def compile_library(
        source: str, *flags: str, name: str = "libown.so", suffix: str = ".c"
    ) -> Path:
        file = tmp_path / name
        terms = (source, suffix, *flags)
        if terms not in _compiled:
            command = _COMPILERS[suffix]
            if shutil.which(command[0]) is None:
                pytest.skip(f"there is no {command[0]}")
            text = tmp_path / f"{name}{suffix}"
            text.write_text(source)
            line = [*command, str(text), "-o", str(file), *flags]
            subprocess.run(line, cwd=tmp_path, check=True)
            _compiled[terms] = file.read_bytes()
        file.write_bytes(_compiled[terms])
        return file

    return compile_library


def cargo_build(*arguments: str) -> Path:
    """Builds ``crates/function``, or a part of it, and returns the folder of what was built."""
    # A folder of its own: the tests of the crates, which may run beside these, hold the lock of theirs while they are built.
    folder = ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "functions"
    command = ["cargo", "build", "--locked", "-q", "-p", "gristmill-function", *arguments]
    subprocess.run([*command, "--target-dir", str(folder)], cwd=ROOT, check=True)
    return folder / "debug"


def rust_crate() -> list[str]:
    """Returns the arguments with which ``rustc`` compiles a library of functions in safe Rust."""
    folder = cargo_build("--lib")
    built = folder / "libgristmill_function.rlib"
    return [
        "--edition=2024",
        f"-Ldependency={folder / 'deps'}",
        f"--extern=gristmill_function={built}",
    ]


@pytest.fixture
def library(compile_library: Compile) -> Library:
    """A library with the functions that most tests need."""
    return Library(compile_library(SOURCE))


SOURCE = """
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

uint32_t echo(void *in, uint32_t size, void *out) { memcpy(out, in, size); return size; }
uint32_t twice(void *in, uint32_t size, void *out) {
    memcpy(out, in, size); memcpy((char *)out + size, in, size); return 2 * size;
}
uint32_t count(void *in, uint32_t size, void *out) {
    static uint32_t calls; calls++; memcpy(out, &calls, sizeof calls); return sizeof calls;
}
uint32_t await(void *in, uint32_t size, void *out) {
    while (!*(volatile char *)in) usleep(100);
    return 0;
}
uint32_t crash(void *in, uint32_t size, void *out) { abort(); }
uint32_t segfault(void *in, uint32_t size, void *out) { *(volatile int *)8 = 1; return 0; }
uint32_t leave(void *in, uint32_t size, void *out) { exit(3); }
uint32_t leave_at_once(void *in, uint32_t size, void *out) { _exit(4); }
uint32_t leave_thread(void *in, uint32_t size, void *out) { pthread_exit(0); }
uint32_t overflow(void *in, uint32_t size, void *out) {
    volatile char frame[4096];
    frame[size % 4096] = 1;
    return overflow((void *)frame, size + 1, out) + frame[size % 4096];
}
uint32_t lie(void *in, uint32_t size, void *out) { return size + 10; }
uint32_t lie_later(void *in, uint32_t size, void *out) {
    memcpy(out, in, size);
    return *(char *)in == '!' ? size + 10 : size;
}
uint32_t past(void *in, uint32_t size, void *out) { ((volatile char *)out)[size] = 1; return size; }
uint32_t forked(void *in, uint32_t size, void *out) { fork(); return 0; }
uint32_t left_child(void *in, uint32_t size, void *out) {
    pid_t child = fork();
    if (child == 0) for (;;) pause();
    memcpy(out, &child, sizeof child);
    return sizeof child;
}
uint32_t endless(void *in, uint32_t size, void *out) { for (;;) pause(); }

int32_t version;
"""
