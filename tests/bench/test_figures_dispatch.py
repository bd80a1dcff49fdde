"""Figures of task dispatch, the cost of logs and the memory that tasks leave: relations and measurements."""

from __future__ import annotations

import contextlib
import operator
import os
import time
from pathlib import Path
from threading import Event
from time import monotonic_ns
from typing import Any

import pytest

from gristmill._profile.categories import CATEGORIES
from gristmill._profile.timings import COMPONENTS
from gristmill_bench import config, plugins, run
from gristmill_bench.apps.held import Held
from gristmill_bench.borders import notes
from gristmill_bench.borders.hops import (
    LAUNCHING,
    OF_HTEX,
    OF_POOLS,
    Hop,
    of_borders,
    of_timings,
)
from gristmill_bench.engine import Engine
from gristmill_bench.errors import BenchError, WrongResult
from gristmill_bench.executors.ours import Gristmill
from gristmill_bench.figures.data import Data
from gristmill_bench.figures.figure import Figure, Sweep
from gristmill_bench.figures.kernels import FIGURES, logs, objects, pipeline, queues, threads
from gristmill_bench.plugins import find

needs_parsl = pytest.mark.skipif(
    find("executor", "parsl").missing() is not None, reason="pip install parsl"
)
needs_loky = pytest.mark.skipif(
    find("executor", "loky").missing() is not None, reason="pip install loky"
)


@needs_parsl
@pytest.mark.parametrize(
    "kind",
    [
        queues.Direct,
        queues.Queues,
        logs.Logs,
        objects.Objects,
        objects.Collector,
        pipeline.Pipeline,
        pytest.param(pipeline.Times, marks=needs_loky),
    ],
)
def test_what_is_run_is_valid_and_a_figure_of_the_page(kind: type[Sweep]) -> None:
    assert kind in {type(one) for one in FIGURES}
    for point in kind().points():
        config.resolve(point.tables)


def held(figure: Figure, cells: dict[str, dict[Any, float]]) -> list[bool]:
    """Returns the verdict of each relation on medians by series and position. Relations without data are left out."""
    data = Data(figure.key, figure.across, figure.upward)
    for series, values in cells.items():
        for place, value in values.items():
            data.add(series, place, value)
    found = []
    for relation in figure.relations:
        try:
            found.append(relation.check(data)[0])
        except LookupError:
            continue
    return found


@pytest.mark.parametrize(
    ("htex", "direct", "expected"),
    [
        ({1: 1_000, 2: 1_100, 4: 1_200}, {1: 1_100, 2: 1_200, 4: 1_000}, True),
        ({1: 900, 2: 900, 4: 1e4}, {1: 800, 2: 1_200, 4: 1e5}, False),
    ],
)
def test_direct_dispatch_beside_an_interchange(htex: Any, direct: Any, expected: bool) -> None:
    cells = {queues.HTEX: htex, queues.ONE: direct}
    assert held(queues.Direct(), cells) == [expected] * 3


@pytest.mark.parametrize(
    ("one", "each", "expected"),
    [
        ({1: 1_000, 2: 1_100, 4: 1_200}, {1: 900, 2: 900, 4: 1_000}, True),
        ({1: 900, 2: 2_000, 4: 900}, {1: 2_000, 2: 9_000, 4: 2_000}, False),
    ],
)
def test_one_queue_beside_a_queue_each(one: Any, each: Any, expected: bool) -> None:
    cells = {queues.ONE: one, queues.EACH: each}
    assert held(queues.Queues(), cells) == [expected] * 3


@pytest.mark.parametrize(("parsl", "ours", "expected"), [(36, 1, True), (12, 10, False)])
def test_objects_of_kernels(parsl: float, ours: float, expected: bool) -> None:
    at = {1_000: 1_000.0, 10_000: 10_000.0, 50_000: 50_000.0 if expected else 150_000.0}
    cells = {
        "Parsl": {tasks: count * parsl for tasks, count in at.items()},
        "Gristmill's kernel": {tasks: count * ours for tasks, count in at.items()},
    }
    assert held(objects.Objects(), cells) == [expected] * 3


@pytest.mark.parametrize(("gain", "expected"), [(1.5, True), (0.9, False)])
def test_gains_without_the_collector(gain: float, expected: bool) -> None:
    cells = {
        "Parsl": {1_000: 1_000.0, 50_000: 1_000.0},
        "Parsl, no collector": {1_000: 1_000.0, 50_000: 1_000.0 * gain},
        "Gristmill's kernel": {50_000: 1_000.0},
        "Gristmill's kernel, no collector": {50_000: 1_000.0},
    }
    assert held(objects.Collector(), cells) == [expected] * 3


@pytest.mark.parametrize(("off", "expected"), [(4_000, True), (900, False)])
def test_rates_without_logs(off: float, expected: bool) -> None:
    on, without = "log or records written", "nothing written"
    cells = {
        "Parsl": {on: 1_200.0, without: off},
        "Parsl over its threads": {on: 1_000.0, without: off},
        "Gristmill's kernel": {on: 1_000.0, without: 1_000.0 if expected else 2_000.0},
        "Gristmill's executor": {on: 50_000.0 if expected else 1.0},
    }
    assert held(logs.Logs(), cells) == [expected] * 5


def test_objects_that_tasks_leave_are_counted(tmp_path: Path) -> None:
    app, backend = Held(tasks=500), Gristmill(workers=1).open()
    try:
        backend.submit(abs, -1).result(60)
        result = app.run(Engine(backend), tmp_path)
    finally:
        backend.shutdown()
    assert app.check(result).endswith("for 500 tasks")
    # The engine keeps one object a task: the suite's, which holds its future.
    assert 0.9 < app.figures(result)["objects_per_task"] < 10
    with pytest.raises(WrongResult):
        app.check(result._replace(numbers=[0]))


@pytest.mark.parametrize("collector", [True, False])
def test_the_collector_of_the_program_can_be_left_out(
    collector: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    note = f"Path({str(tmp_path / 'is_on')!r}).write_text(str(gc.isenabled()))"
    (tmp_path / "sitecustomize.py").write_text(
        "import atexit, gc, sys\nfrom pathlib import Path\n"
        f"atexit.register(lambda: 'child.py' in sys.argv[0] and {note})\n"
    )
    options = {"folder": str(tmp_path), "collector": collector}
    app = {"name": "held", "tasks": 3}
    run.start(config.resolve({"app": app, "executor": {"name": "inline"}, "run": options}))
    assert (tmp_path / "is_on").read_text() == str(collector)


def test_threads_of_a_profile_are_shared_out_by_category() -> None:
    data = Data("thesis-2.2", "thread", "%")
    for sample in threads.by_category("Gristmill", PROFILE):
        data.add(*sample)
    assert data.places() == ["Gristmill: program", "Gristmill: worker"]
    assert data.at("engine", "Gristmill: program") == 75
    assert data.at("poll", "Gristmill: worker") == 100
    assert len(data.series()) == 10


@pytest.mark.parametrize("called", ["worker", "direct worker", "HTEX worker"])
def test_what_workers_sleep_in_is_what_the_system_says(called: str) -> None:
    rows = [one | ({"process": called} if one["process"] == "worker" else {}) for one in PROFILE]
    found = {one.series: one.value for one in threads.by_state("1, mine", rows)}
    assert found == {"reads": 25, "semaphore": 50, "polls": 0, "else": 25}


#: Rows as a profile has them: a program with two threads of one kind, and a worker.
PROFILE: list[dict[str, Any]] = [
    {
        "process": process,
        "thread": "MainThread",
        "looks": 10,
        "categories": categories,
        "states": states,
    }
    for process, categories, states in (
        ("program", {"engine": 10}, {"runs": 10}),
        ("program", {"engine": 5, "poll": 5}, {"runs": 10}),
        ("worker", {"poll": 10}, {"receive": 5, "semaphore": 10, "interpreter lock": 5, "runs": 9}),
    )
]


@pytest.mark.parametrize(("reads", "expected"), [(90, True), (10, False)])
def test_waits_of_workers(reads: float, expected: bool) -> None:
    waits = 100.0 - reads
    one, each = "4, direct, one queue", "4, direct, a queue each"
    cells = {
        "semaphore": {
            "2, HTEX": 40.0 if expected else 10.0,
            "1, direct, one queue": waits / 10 if expected else 50.0,
            one: reads,
            each: waits,
        },
        "reads": {"2, HTEX": 10.0, "1, direct, one queue": 50.0, one: waits, each: reads},
        "polls": {"2, HTEX": 50.0 if expected else 80.0},
    }
    assert held(threads.Waits(), cells) == [expected] * 4


@pytest.mark.parametrize(("busy", "expected"), [(10.0, True), (60.0, False)])
def test_a_worker_that_is_reached_directly(busy: float, expected: bool) -> None:
    at = "Parsl, direct: worker"
    cells: dict[str, dict[Any, float]] = {one: {at: 0.0} for one in CATEGORIES}
    cells |= {"receive": {at: 95.0 - busy}, "standard library": {at: 5.0}, "program": {at: busy}}
    assert held(threads.Threads(), cells) == [expected] * 2


@pytest.mark.parametrize(("queue", "expected"), [(1e5, True), (10.0, False)])
def test_times_of_parsl(queue: float, expected: bool) -> None:
    hops: dict[Any, float] = dict.fromkeys(OF_HTEX, 100.0)
    hops |= {LAUNCHING: 1e4, "interchange: queue": queue}
    hops["socket to the interchange"] = 200.0 if expected else 1.0
    hops["socket to the manager"] = 50.0 if expected else 300.0
    hops |= dict.fromkeys(("worker: function", "queue to a worker"), 150.0 if expected else 90.0)
    cells = {
        "Parsl": hops,
        "loky": dict.fromkeys(OF_POOLS, 100.0),
        "Gristmill": dict.fromkeys([name for _, _, name in COMPONENTS], 1.0 if expected else 1e6),
    }
    assert held(pipeline.Times(), cells) == [expected] * 8
    if not expected:
        hops.pop("interchange: queue")
        hops["elsewhere: queue"] = 1.0
    assert held(pipeline.Pipeline(), cells) == [expected] * 2


def test_hops_lie_between_borders_and_tasks_that_have_not_crossed_all_do_not_count(
    tmp_path: Path,
) -> None:
    noted = notes.Notes(tmp_path)
    for border, when in enumerate((1_000, 3_000, 8_000)):
        noted.note(1, border, when)
    noted.note(2, 0)
    found = of_borders(list(notes.read(tmp_path).values()), ("first", "second"))
    assert found == [("first", 2, 2, 1), ("second", 5, 5, 1)]


def test_hops_that_no_task_has_passed_are_no_measurement() -> None:
    submitted = {0: 1_000}
    with pytest.raises(BenchError, match="no task has crossed all borders"):
        of_borders([submitted], ("first", "second"))
    with pytest.raises(BenchError, match="no task has crossed all borders"):
        of_timings([])


def passed_by(pool: Any, count: int) -> list[Hop]:
    """Returns the pool's hops once this many tasks have passed each; until then an empty list."""
    with contextlib.suppress(BenchError):
        hops: list[Hop] = pool.hops()
        return hops if all(hop.tasks == count for hop in hops) else []
    return []


@pytest.mark.parametrize("name", ["processes", pytest.param("loky", marks=needs_loky)])
def test_tasks_of_a_pool_are_noted_on_their_way_and_back(name: str) -> None:
    plugin: Any = plugins.make("executor", name, {"workers": 1})
    pool = plugin.open_timed()
    try:
        assert pool.submit(abs, -1).result(60) == 1
        pool.begin()
        first = pool.submit(operator.add, 1, 2)
        assert pool.submit(operator.mul, first, first).result(60) == 9
        with pytest.raises(ZeroDivisionError):
            pool.submit(operator.truediv, 1, 0).result(60)
        # A future wakes its waiters before it calls the callback that notes its end.
        while not (found := passed_by(pool, 3)):
            time.sleep(0.001)
        assert [hop.name for hop in found] == list(OF_POOLS)
        assert all(hop.tasks == 3 and hop.mean_us > 0 for hop in found)
    finally:
        pool.shutdown()


def test_a_pool_in_groups_notes_no_tasks() -> None:
    plugin: Any = plugins.make("executor", "processes", {"groups": [{"name": "all"}]})
    with pytest.raises(BenchError, match="borders"):
        plugin.open_timed()


@pytest.mark.parametrize("is_on", [True, False])
def test_the_log_of_a_kernel_is_written_if_it_is_asked_for(is_on: bool) -> None:
    made: Any = plugins.make("executor", "gristmill-parsl", {"logs": is_on})
    opened = made.open()
    try:
        assert Path(opened.kernel.run_dir, "parsl.log").exists() is is_on
    finally:
        opened.shutdown()


@needs_parsl
@pytest.mark.slow
@pytest.mark.parametrize("logs", [False, "nowhere"])
def test_no_process_of_htex_writes_a_log_if_logs_are_off(logs: Any) -> None:
    made: Any = plugins.make("executor", "parsl", {"logs": logs, "workers": 1})
    opened = made.open()
    try:
        assert opened.submit(abs, -1).result(60) == 1
        folder = Path(opened.kernel.run_dir).parent
        found = {one.name for one in folder.rglob("*.log")}
        of_htex = {"interchange.log", "manager.log", "worker_0.log"}
        assert found == (set() if logs else of_htex)
    finally:
        opened.shutdown()


def timed(executor: str, tmp_path: Path, **fields: Any) -> dict[str, float]:
    """Runs some tasks; returns the median of each hop."""
    options = {"folder": str(tmp_path), "timings": True, "warmup": 5, "timeout": 100}
    app = {"name": "synthetic", "tasks": 20}
    tables = {"app": app, "executor": {"name": executor, **fields}, "run": options}
    found = run.summary(run.start(config.resolve(tables)))["hops"]
    assert {one["tasks"] for one in found} == {20}
    return {one["name"]: one["median_us"] for one in found}


@pytest.mark.parametrize("nodes", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_tasks_of_ours_have_hops_by_their_timings(tmp_path: Path, nodes: int) -> None:
    hops = timed("gristmill", tmp_path, nodes=nodes)
    assert tuple(hops) == tuple(name for _, _, name in COMPONENTS)
    assert all(time >= 0 for time in hops.values())


def is_here(process: int) -> bool:
    return process == os.getpid()


def test_tasks_in_contexts_have_hops_and_keep_their_contexts() -> None:
    made: Any = plugins.make("executor", "gristmill", {"workers": 1})
    opened = made.open_timed()
    try:
        assert opened.submit(abs, -1).result(60) == 1
        engine = Engine(opened)
        inside = engine.within(os.getpid)
        opened.begin()
        found = [inside.submit(is_here) for _ in range(3)]
        assert [one.result(60) for one in found] == [False] * 3, "it was set up before the fork"
        assert {hop.tasks for hop in opened.hops()} == {3}
    finally:
        opened.shutdown()


@needs_parsl
@pytest.mark.slow
def test_tasks_of_parsl_have_hops_in_all_processes_of_htex(tmp_path: Path) -> None:
    hops = timed("parsl", tmp_path)
    assert tuple(hops) == OF_HTEX
    assert all(time >= 0 for time in hops.values())


def noted(backend: Any) -> list[Hop]:
    """Returns the hops once a task has crossed all borders. The task crosses the last one after its result is
    available.
    """
    while True:
        try:
            found: list[Hop] = backend.hops()
        except BenchError:
            time.sleep(0.001)
        else:
            return found


@needs_parsl
@pytest.mark.slow
def test_what_a_task_waits_for_the_thread_that_launches_is_not_the_kernels_own_time() -> None:
    made: Any = plugins.make("executor", "parsl", {"workers": 1})
    opened = made.open_timed()
    try:
        assert opened.submit(abs, -1).result(60) == 1
        opened.begin()
        launches = Event()
        opened.kernel._task_launch_pool.submit(launches.wait, 60)
        begun = monotonic_ns()
        future = opened.submit(abs, -2)
        submitted = monotonic_ns()
        waited_ns = monotonic_ns() - submitted
        launches.set()
        assert future.result(60) == 2
        hops = {hop.name: hop.median_us for hop in noted(opened)}
        assert hops["kernel: takes"] <= (submitted - begun) / 1e3
        assert hops[LAUNCHING] >= waited_ns / 1e3
    finally:
        opened.shutdown()


@pytest.mark.parametrize(
    ("executor", "fields"),
    [("threads", {}), ("gristmill", {"batches": 5})],
)
def test_unknown_hops_are_refused(executor: str, fields: dict[str, Any]) -> None:
    made: Any = plugins.make("executor", executor, fields)
    with pytest.raises(BenchError, match=r"run\.timings: the borders"):
        made.open_timed()
