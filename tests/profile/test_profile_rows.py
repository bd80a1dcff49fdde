"""Rows of a profile, made from threads, and the drawings of rows and of object counts."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from pathlib import Path
from time import monotonic

import pytest

import gristmill
from gristmill._profile import kernel, timeline
from gristmill._profile.charts import bars, ticks
from gristmill._profile.kernel import Slice, Watch, WatchedThread
from gristmill._profile.launch import Seen
from gristmill._profile.objects import Garbage
from gristmill._profile.rows import LOOKS_MIN, of

OURS = Path(gristmill.__file__).parent
WORK = f"main ({OURS}/_zygote.py:60);_work ({OURS}/_zygote.py:129)"
PYTHON = 'process 10:"python a.py"'


def seen(stacks: list[str], threads: list[WatchedThread], commands: dict[int, str]) -> Seen:
    watch = Watch()
    watch.threads = {(one.process, one.thread): one for one in threads}
    watch.commands = commands
    return Seen(0, 1.0, watch, stacks, None, "", 5.0, 10, frozenset({1, 2}))


def watched(process: int, thread: int, name: str, **states: int) -> WatchedThread:
    found = WatchedThread(process, thread, name, cpu_s=0.5)
    found.states.update(states)
    found.timeline = [Slice(kernel.RUNS, 5.5, 6.0)]
    return found


def test_threads_of_one_kind_are_a_row_and_the_program_comes_first() -> None:
    stacks = [
        f'{PYTHON};process 11:"k";process 12:"p";thread (12): MainThread;{WORK} 10',
        f'{PYTHON};process 11:"k";process 13:"p";thread (13): MainThread;{WORK};f (/a.py:1) 30',
        f"{PYTHON};thread (10): MainThread;<module> (/a.py:1) 20",
        f"{PYTHON};thread (20): pool-3_7;<module> (/a.py:1) 20",
        f"{PYTHON};thread (21): pool-3_8;<module> (/a.py:1) 20",
        'process 2:"python";thread (2): MainThread;wait (/b.py:1) 20',
    ]
    threads = [watched(11, 11, "keeper", poll=9, runs=1), watched(12, 12, "python", runs=4)]
    rows = of(seen(stacks, threads, {11: "gristmill-keeper"}), is_native=False)
    assert [(row.process, row.thread, row.threads) for row in rows] == [
        ("program", "MainThread", 1),
        ("program", "pool-N_N", 2),
        ("keeper", "MainThread", 1),
        ("worker", "MainThread", 2),
    ]
    worker, keeper = rows[3], rows[2]
    assert (worker.share("engine"), worker.share("program")) == (0.25, 0.75)
    assert (worker.has_stacks, keeper.has_stacks) == (True, False)
    assert (keeper.share("poll"), keeper.share("engine")) == (0.9, 0.1)


def test_what_native_code_waits_for_is_known_from_stacks_or_from_the_kernel() -> None:
    stacks = [f"{PYTHON};thread (10): MainThread;{WORK} 40"]
    states = {"runs": 30, "semaphore": 10}
    run = seen(stacks, [watched(10, 10, "python", **states)], {})
    (settled,), (plain,) = of(run, is_native=False), of(run, is_native=True)
    assert (settled.share("poll"), settled.share("engine")) == (0.25, 0.75)
    assert plain.share("engine") == 1


def test_threads_of_engines_poll_where_others_wait_for_locks() -> None:
    states = {"semaphore": 10, "standard library": 10, "receive": 20}
    threads = [watched(10, 11, "gristmill-attendant", **states), watched(10, 12, "other", **states)]
    engine, other = of(seen([], threads, {}), is_native=False)
    assert dict(engine.categories) == {"poll": 20, "receive": 20}
    assert dict(other.categories) == states


def test_threads_that_were_hardly_seen_are_left_out() -> None:
    stacks = [f"{PYTHON};thread (10): MainThread;f (/a.py:1) {LOOKS_MIN - 1}"]
    assert of(seen(stacks, [], {}), is_native=False) == []


def test_a_timeline_begins_with_the_program() -> None:
    run = seen([], [watched(10, 10, "python", runs=5), watched(2, 2, "py-spy", runs=5)], {})
    events = timeline.document(run, timeline.names_of(of(run, False)))["traceEvents"]
    slices = [one for one in events if one["ph"] == "X"]
    assert [(one["pid"], one["ts"], one["dur"]) for one in slices] == [(10, 0.5e6, 0.5e6)]
    assert {one["args"]["name"] for one in events if one["ph"] == "M"} == {"program", "MainThread"}


def test_objects_are_counted_on_the_clock_of_the_timeline() -> None:
    run = seen([], [watched(10, 10, "python", runs=5)], {})
    garbage = Garbage()
    garbage.start()
    run.notes = {"garbage": garbage.found()}
    run.begun = run.notes["garbage"]["begun"] - 3.0
    first, *_ = (one for one in timeline.document(run, {})["traceEvents"] if one["ph"] == "C")
    gc.callbacks.pop()
    assert first["ts"] == pytest.approx((3.0 + run.notes["garbage"]["counts"][0][0]) * 1e6)


def test_the_wait_for_who_looks_is_no_time_of_the_program(tmp_path: Path) -> None:
    notes, (ready_from, ready), (go_from, go) = tmp_path / "notes", os.pipe(), os.pipe()
    orders = {"ready": ready, "go": go_from, "notes": str(notes), "sample": 0, "collects": True}
    command = [sys.executable, "-m", "gristmill._profile.program", json.dumps(orders)]
    (tmp_path / "program.py").write_text("")
    with subprocess.Popen(
        [*command, str(tmp_path / "program.py")], pass_fds=(ready, go_from)
    ) as process:
        os.read(ready_from, 1)
        looked_at = monotonic()
        os.write(go, b"g")
    assert process.returncode == 0
    assert json.loads(notes.read_text())["garbage"]["begun"] >= looked_at
    for descriptor in (ready_from, ready, go_from, go):
        os.close(descriptor)


def test_a_bar_is_as_long_as_the_shares_of_its_row() -> None:
    run = seen([f"{PYTHON};thread (10): <x>;f (/a.py:1) 40"], [], {})
    drawn = bars(of(run, False))
    assert drawn.count("<rect") == 1
    assert "&lt;x&gt;" in drawn
    assert "<x>" not in drawn


@pytest.mark.parametrize(
    ("most", "expected"), [(1.0, [0, 0.2, 0.4, 0.6, 0.8, 1]), (15_000.0, [0, 5_000, 10_000, 15_000])]
)  # fmt: skip
def test_ticks_are_round(most: float, expected: list[float]) -> None:
    assert ticks(most) == pytest.approx(expected)


def test_collections_are_counted_with_what_they_find() -> None:
    garbage = Garbage()
    garbage.start()
    try:
        for _ in range(10):
            loop: list[object] = []
            loop.append(loop)
        del loop
        gc.collect()
    finally:
        gc.callbacks.pop()
    found = garbage.found()
    last = found["generations"][-1]
    assert last["collections"] == 1
    assert last["collected"] >= 10
    assert last["seconds"] > 0
    assert len(found["counts"]) >= 2
    assert [one[0] for one in found["counts"]] == sorted(one[0] for one in found["counts"])
