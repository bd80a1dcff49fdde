"""Programs whose threads are greenlets wait for futures and get their callbacks while other greenlets run."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

#: Code that replaces the threads of a program, by the library. The last one needs none: threads run only in ``sleep``.
PATCHES = {
    "gevent": "from gevent import monkey; monkey.patch_all()",
    "eventlet": "import eventlet; eventlet.monkey_patch()",
    "none": """
import _thread, threading, time
waiting, sleep = [], time.sleep
def start_new_thread(function, arguments, keywords={}):
    waiting.append(lambda: function(*arguments, **keywords))
    return 1
def sleep_and_run(seconds):
    for run in waiting[:]:
        waiting.remove(run)
        run()
    sleep(seconds)
_thread.start_new_thread = start_new_thread
threading.Thread.start = lambda self: start_new_thread(self.run, ())
time.sleep = sleep_and_run
""",
}
BEFORE = "{patch}\nimport time, threading\nimport gristmill\n"
AFTER = "import time, threading\nimport gristmill\n{patch}\n"


def output_of(library: str, program: str, order: str = BEFORE) -> list[str]:
    """Returns the lines that a program prints whose threads the library has replaced."""
    if library != "none" and importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    text = order.format(patch=PATCHES[library]) + program
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", text], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("order", [BEFORE, AFTER], ids=["before", "after"])
@pytest.mark.parametrize("library", PATCHES)
def test_callbacks_are_called(library: str, order: str) -> None:
    program = """
with gristmill.Executor(1) as executor:
    called = []
    for number in range(3):
        executor.submit(abs, -number).add_done_callback(lambda one: called.append(one.result()))
    while len(called) < 3:
        time.sleep(0.001)
    print(*sorted(called))
"""
    assert output_of(library, program, order) == ["0", "1", "2"]


@pytest.mark.parametrize("library", PATCHES)
def test_a_wait_for_a_future_lets_others_run(library: str) -> None:
    program = """
from concurrent.futures import as_completed, wait
import os
with gristmill.Executor(2) as executor:
    for wait_for in (
        lambda one: one.result(),
        lambda one: one.exception(),
        lambda one: one.result(100),
        lambda one: wait([one]),
        lambda one: list(as_completed([one])),
    ):
        reader, writer = os.pipe()
        gate = f"/proc/{os.getpid()}/fd/{reader}"
        future = executor.submit(lambda: len(open(gate, "rb", 0).read(1)))
        def open_gate():
            time.sleep(0)  # until the main thread waits
            os.write(writer, b"1")
        threading.Thread(target=open_gate).start()
        wait_for(future)
        print(future.result())
"""
    assert output_of(library, program) == ["1"] * 5


@pytest.mark.parametrize("library", PATCHES)
def test_the_end_of_an_executor_waits_for_its_tasks_and_callbacks(library: str) -> None:
    program = """
import os
called = []
executor = gristmill.Executor(2)
for number in range(50):
    executor.submit(abs, number).add_done_callback(called.append)
executor.shutdown()
print(len(called))
gristmill.Executor(1).shutdown()
with gristmill.Executor(1) as executor:
    print(*executor.map(abs, [-1, -2]))
    reader, writer = os.pipe()
    gate = f"/proc/{os.getpid()}/fd/{reader}"
    future = executor.submit(lambda: len(open(gate, "rb", 0).read(1)))
    for wait_for in (future.result, future.exception):
        try:
            wait_for(0.001)
        except TimeoutError:
            print("late")
    os.write(writer, b"1")
"""
    assert output_of(library, program) == ["50", "1", "2", "late", "late"]


@pytest.mark.parametrize("library", PATCHES)
def test_nodes_are_refused(library: str) -> None:
    program = """
try:
    gristmill.Executor(nodes=gristmill.on.local(1))
except RuntimeError as error:
    print("greenlets" in str(error))
"""
    assert output_of(library, program) == ["True"]
