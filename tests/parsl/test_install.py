"""``gristmill.parsl.install()``: Gristmill's kernel under Parsl's names."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gristmill.parsl._kernel.parsl_detection import is_parsl_installed

needs_parsl = pytest.mark.skipif(not is_parsl_installed(), reason="needs Parsl")


def _run(program: str, *arguments: str) -> str:
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@needs_parsl
def test_parsls_names_are_ours_afterwards_and_installing_twice_does_no_harm() -> None:
    program = """
import parsl, gristmill.parsl
from parsl.dataflow.dflow import DataFlowKernel as Theirs
gristmill.parsl.install(); gristmill.parsl.install(engine=True)
from gristmill.parsl import DataFlowKernel
from gristmill.parsl.dataflow.futures import AppFuture
from gristmill.parsl.app.futures import DataFuture
import parsl.dataflow.futures, parsl.app.futures, parsl.dataflow.dflow
assert issubclass(parsl.DataFlowKernel, DataFlowKernel) and issubclass(parsl.DataFlowKernel, Theirs)
assert parsl.dataflow.dflow.DataFlowKernel is parsl.DataFlowKernel
assert parsl.dataflow.futures.AppFuture is AppFuture
assert parsl.app.futures.DataFuture is DataFuture
"""
    _run(program)


@needs_parsl
def test_except_clauses_of_the_program_catch_what_the_engine_raises(tmp_path: object) -> None:
    program = """
import os, sys, threading
import parsl, gristmill.parsl
from parsl.executors.high_throughput.errors import WorkerLost
from parsl.app.errors import AppTimeout
from parsl.serialize.errors import SerializationError
gristmill.parsl.install(engine=True, max_workers=1)
def caught(call, kind):
    try:
        call().result()
    except kind as error:
        return str(error) != ""
with parsl.load(parsl.Config(run_dir=sys.argv[1], initialize_logging=False)):
    @parsl.python_app
    def spin(walltime=0.2):
        threading.Lock().acquire() and __import__("time").sleep(1000)
    print(caught(lambda: parsl.python_app(os._exit)(3), WorkerLost))
    print(caught(lambda: parsl.python_app(abs)(threading.Lock()), SerializationError))
    print(caught(spin, AppTimeout))
"""
    assert _run(program, str(tmp_path)) == "True\nTrue\nTrue\n"


def test_without_parsl_it_says_what_to_do_instead() -> None:
    program = """
import sys
sys.modules["parsl"] = None
import gristmill.parsl
try:
    gristmill.parsl.install()
except gristmill.parsl.errors.OptionalModuleMissing as error:
    print(error)
"""
    assert "import gristmill.parsl as parsl" in _run(program)
