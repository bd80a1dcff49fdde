"""The kernel's information about threads: of real threads, and of possible contents of /proc."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from time import monotonic

import pytest

from gristmill._profile import kernel
from gristmill._profile.kernel import Watch, static_data
from gristmill._profile.permission import refusal

#: A program with threads that sleep in a read, in a poll and in a lock, and two threads that compete for one
#: interpreter.
PROGRAM = """
import os, select, sys, threading
from _thread import start_new_thread

def hold(number):
    if number == 0:
        os.read(os.pipe()[0], 1)
    elif number == 1:
        select.select([os.pipe()[0]], [], [])
    elif number == 2:
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()
    else:
        while True:
            sum(range(1000))

def name(number):
    with open(f"/proc/self/task/{threading.get_native_id()}/comm", "w") as file:
        file.write(f"kind {number}")
    barrier.wait()
    hold(number)

barrier = threading.Barrier(6)
for number in range(5):
    start_new_thread(name, (number,))
barrier.wait()
print("ready", flush=True)
sys.stdin.read()
os._exit(0)
"""


def test_threads_sleep_in_what_they_wait_for() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        watch = Watch()
        watch.find([process.pid])
        seen: dict[str, kernel.WatchedThread] = {
            thread.name: thread for thread in watch.threads.values()
        }
        while not _is_settled(seen):
            watch.look(monotonic())
        process.communicate(b"")
    if watch.is_refused:
        pytest.skip("the kernel does not say what threads sleep in")
    assert seen["kind 3"].states[kernel.RUNS] > 0
    assert all(one.begin <= one.end for one in seen["kind 3"].timeline)


def _is_settled(seen: dict[str, kernel.WatchedThread]) -> bool:
    """Returns whether each thread was seen in its state; the test's time limit ends a wait for a state that never
    comes.
    """
    wanted = {"kind 0": "receive", "kind 1": "poll", "kind 2": "semaphore"}
    if sys._is_gil_enabled() if hasattr(sys, "_is_gil_enabled") else True:
        wanted |= {"kind 3": kernel.INTERPRETER, "kind 4": kernel.INTERPRETER}
    is_refused = any(thread.states[kernel.SLEEPS] for thread in seen.values())
    return is_refused or all(seen[name].states[state] for name, state in wanted.items())


def test_a_timeline_that_is_full_ends_and_does_not_go_on_in_its_last_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watch = Watch(slices_max=1)
    watch.find([os.getpid()])
    watch._living = watch._living[:1]
    states = iter(["poll", "receive", "poll", "receive"])
    monkeypatch.setattr(watch, "_state", lambda _: next(states))
    for now in (1.0, 2.0, 3.0, 4.0):
        watch.look(now)
    (thread,) = watch._living
    assert thread.timeline == [kernel.Slice("poll", 1.0, 2.0)]
    assert thread.states == {"poll": 2, "receive": 2}
    assert thread.is_cut


def test_a_thread_that_has_ended_has_no_state() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        watch = Watch()
        watch.find([process.pid])
    before = [thread.samples for thread in watch.threads.values()]
    watch.look(monotonic())
    assert [thread.samples for thread in watch.threads.values()] == before


def test_the_static_data_of_an_interpreter_is_what_it_may_write_and_what_follows() -> None:
    maps = "\n".join(
        (
            "1000-2000 r-xp 00000000 fe:00 1 /usr/lib/libpython3.12.so.1.0",
            "2000-3000 rw-p 00001000 fe:00 1 /usr/lib/libpython3.12.so.1.0",
            "3000-4000 rw-p 00000000 00:00 0",
            "5000-6000 rw-p 00000000 00:00 0",
            "6000-7000 rw-p 00001000 fe:00 1 /usr/lib/libm.so.6",
            "7000-8000 rw-p 00000000 00:00 0 [heap]",
        )
    )
    assert list(static_data(maps)) == [(0x2000, 0x3000), (0x3000, 0x4000)]


def test_this_interpreter_has_static_data() -> None:
    assert list(static_data(Path("/proc/self/maps").read_text()))


@pytest.mark.parametrize(
    ("scope", "is_privileged", "word"),
    [("0", False, None), ("1", False, None), ("2", True, None), ("2", False, "root"), ("3", True, "boot")],
)  # fmt: skip
def test_a_kernel_that_permits_no_tracing_is_named(
    scope: str, is_privileged: bool, word: str | None
) -> None:
    reason = refusal(scope, is_privileged)
    assert (reason is None) if word is None else (reason is not None and word in reason)


def test_processes_are_told_by_number() -> None:
    watch = Watch()
    watch.find([os.getpid()])
    assert (os.getpid(), os.getpid()) in watch.threads
    assert watch.threads[os.getpid(), os.getpid()].cpu_s > 0
