"""The category, one of ten, of each sampled stack, and the distinction of waiting and working."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import gristmill
from gristmill._profile.categories import CATEGORIES, Category, categorize
from gristmill._profile.settling import settle
from gristmill._profile.stacks import frames, read

LIBRARY = "/usr/lib/python3.12"
PACKAGES = f"{LIBRARY}/site-packages"
OURS = Path(gristmill.__file__).parent
LIBC = "/usr/lib/x86_64-linux-gnu/libc.so.6"

#: Ends of stacks, outermost frame first, as they are sampled with Parsl's executor and with ours.
STACKS: list[tuple[Category, str]] = [
    ("poll", f"Interchange.start ({PACKAGES}/parsl/interchange.py:1);Poller.poll ({PACKAGES}/zmq/sugar/poll.py:80)"),
    ("poll", f"Loop.run ({PACKAGES}/distributed/core.py:1);EpollSelector.select ({LIBRARY}/selectors.py:451)"),
    ("poll", f"main ({OURS}/_zygote.py:1);wait (/x/crates/keeper/src/descriptor.rs:1);ppoll ({LIBC})"),
    ("receive", f"worker ({PACKAGES}/parsl/process_worker_pool.py:9);Connection._recv ({LIBRARY}/multiprocessing/connection.py:4);read ({LIBC})"),
    ("receive", f"pull ({PACKAGES}/parsl/a.py:9);Socket.recv_pyobj ({PACKAGES}/zmq/sugar/socket.py:9)"),
    ("send", f"submit ({PACKAGES}/parsl/a.py:9);Socket.send_multipart ({PACKAGES}/zmq/sugar/socket.py:9)"),
    ("send", f"_work ({OURS}/_zygote.py:1);ring (/x/crates/shm/src/bell.rs:88);syscall ({LIBC})"),
    ("queue", f"pull ({PACKAGES}/parsl/a.py:9);Queue.get ({LIBRARY}/queue.py:171);Condition.wait ({LIBRARY}/threading.py:327)"),
    ("semaphore", f"worker ({PACKAGES}/parsl/process_worker_pool.py:9);Queue.get ({LIBRARY}/multiprocessing/queues.py:100);SemLock.__enter__ ({LIBRARY}/multiprocessing/synchronize.py:95)"),
    ("semaphore", f"<module> (/home/a.py:1);Future.result ({LIBRARY}/concurrent/futures/_base.py:451);Condition.wait ({LIBRARY}/threading.py:327)"),
    ("semaphore", f"spin (/home/a.py:6);pthread_cond_timedwait ({LIBC})"),
    ("serialization", f"submit ({PACKAGES}/parsl/dataflow/dflow.py:1);serialize ({PACKAGES}/parsl/serialize/facade.py:1);dumps ({PACKAGES}/dill/_dill.py:2)"),
    ("serialization", f"_work ({OURS}/_zygote.py:1);call (/x/crates/native/src/codec/decode.rs:62)"),
    ("logging", f"submit ({PACKAGES}/parsl/a.py:9);Logger.info ({LIBRARY}/logging/__init__.py:1);Handler.acquire ({LIBRARY}/logging/__init__.py:9);write ({LIBC})"),
    ("engine", f"<module> (/home/a.py:1);DataFlowKernel.submit ({PACKAGES}/parsl/dataflow/dflow.py:9)"),
    ("engine", f"<module> (/home/a.py:1);Executor.submit ({OURS}/_executor.py:9)"),
    ("standard library", f"score (/home/a.py:1);compile ({LIBRARY}/re/__init__.py:225)"),
    ("standard library", f"score (/home/a.py:1);time_sleep (/usr/lib/libpython3.12.so.1.0);clock_nanosleep ({LIBC})"),
    ("program", f"_work ({OURS}/_zygote.py:1);score (/home/a.py:1)"),
    ("program", f"score (/home/a.py:1);product ({PACKAGES}/numpy/linalg.py:1);gemm ({PACKAGES}/numpy.libs/libblas.so)"),
    ("program", f"_work ({OURS}/_zygote.py:1);run (/src/gristmill_bench/apps/kernels.py:1)"),
    ("program", "score (/home/logging/queue.py:1)"),
    ("program", "score (/home/ray/parsl/program.py:1)"),
]  # fmt: skip


@pytest.mark.parametrize(("category", "stack"), STACKS)
def test_a_stack_belongs_to_what_its_owner_was_doing(category: str, stack: str) -> None:
    assert categorize(frames(stack)).category == category


def test_every_category_is_one_of_ten_and_has_a_stack() -> None:
    assert len(CATEGORIES) == 10
    assert {category for category, _ in STACKS} == set(CATEGORIES)


def test_a_command_may_have_what_separates_frames() -> None:
    command = 'python -c import a; print("process 1:")'
    line = f'process 7:"/bin/python a.py";process 9:"{command}";thread (12): a name;f (/home/a.py:3);g (/home/b.py:4) 41'
    (thread,) = read([line, line.replace(" 41", " 1"), "no line of py-spy"]).values()
    assert (thread.process, thread.thread, thread.name) == (9, 12, "a name")
    assert thread.command == command
    assert thread.categories == {"program": 42}
    assert [(one.function, count) for one, count in thread.functions.items()] == [("g", 42)]


def test_the_profile_itself_is_not_profiled() -> None:
    waits = f'process 7:"p";thread (7);main ({OURS}/_profile/program.py:1) 3'
    writes = f'process 7:"p";thread (7);_take_notes.<locals>.write ({OURS}/_profile/program.py:1);dumps (/a.py:2) 3'
    assert sum(thread.samples for thread in read([waits, writes]).values()) == 0


def test_sleep_that_no_stack_explains_is_taken_from_engines_first() -> None:
    stacks: Counter[Category] = Counter({"engine": 60, "program": 40})
    states = Counter({"runs": 50, "semaphore": 25, "interpreter lock": 25})
    settled = settle(stacks, stacks, states)
    assert settled == {"engine": 10, "program": 40, "poll": 25, "semaphore": 25}


def test_sleep_that_stacks_explain_stays_where_it_is() -> None:
    stacks: Counter[Category] = Counter({"queue": 50, "poll": 30, "program": 20})
    states = Counter({"runs": 20, "semaphore": 50, "poll": 30})
    assert settle(stacks, Counter({"program": 20}), states) == stacks


def test_without_looks_of_the_kernel_stacks_say_all() -> None:
    stacks: Counter[Category] = Counter({"engine": 3})
    assert settle(stacks, stacks, Counter()) == stacks
