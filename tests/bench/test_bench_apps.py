"""The applications compute correct results on any executor, and detect wrong ones."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gristmill_bench import App, Engine, ExecutorPlugin, WrongResult
from gristmill_bench.apps.cholesky import Cholesky
from gristmill_bench.apps.fib import Fib
from gristmill_bench.apps.kernels import BlackScholes, Jacobi, MatMul
from gristmill_bench.apps.mapreduce import MapReduce
from gristmill_bench.apps.metg import Metg, Point
from gristmill_bench.apps.stencil import Stencil
from gristmill_bench.apps.synthetic import Synthetic
from gristmill_bench.executors.here import Inline, Threads
from gristmill_bench.executors.ours import Gristmill

PATTERNS = ("none", "chain", "stencil", "fft", "tree", "all")
APPS = [
    Cholesky(size=64, block=16),
    Fib(n=10),
    MapReduce(text="generated", maps=4, files=9, words=200),
    MapReduce(maps=4, files=20),
    Synthetic(tasks=50, in_flight=4, size=100, given=20),
    MatMul(size=50, parts=3),
    Jacobi(size=40, iterations=20, parts=3),
    BlackScholes(options=3_000, parts=4),
    *(Stencil(pattern=one, width=4, steps=5) for one in PATTERNS),
    *(Synthetic(structure=one, tasks=20, size=10) for one in ("diamond", "reduce", "sequence")),
]


@pytest.mark.parametrize(
    "executor", [Inline(), Threads(), Gristmill()], ids=lambda one: type(one).__name__
)
def test_each_application_finds_its_own_result_right(
    executor: ExecutorPlugin, tmp_path: Path
) -> None:
    backend = executor.open()
    try:
        for app in APPS:
            assert app.check(app.run(Engine(backend), tmp_path))
    finally:
        backend.shutdown()


@pytest.mark.parametrize(
    "app",
    [one for one in APPS if type(one).prepare is not App.prepare],
    ids=lambda one: type(one).__name__,
)
def test_what_was_prepared_is_not_made_again_by_the_run(
    app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.inputs(tmp_path)
    for maker in ("prepare", "matrix", "factors", "system", "table", "_found", "_generate"):
        monkeypatch.setattr(type(app), maker, None, raising=False)
    result = app.run(Engine(Inline().open()), tmp_path)
    monkeypatch.undo()
    assert app.check(result)


class Old(App):
    """An application without a preparation step, as older plug-ins are."""

    def run(self, engine: Engine, folder: Path) -> Any:
        return self.inputs(folder), list(engine.map(abs, [-1]))

    def check(self, result: Any) -> str:
        return str(result)


def test_an_application_without_inputs_needs_no_step_for_them(tmp_path: Path) -> None:
    assert Old().run(Engine(Inline().open()), tmp_path) == (None, [1])


class Base(App):
    """An application that counts how often it prepares."""

    def prepare(self, folder: Path) -> int:
        with (folder / "prepared").open("a") as file:
            file.write("once ")
        return 3

    def run(self, engine: Engine, folder: Path) -> int:
        result: int = engine.submit(abs, -self.inputs(folder)).result()
        return result

    def check(self, result: int) -> str:
        return str(result)


def test_inputs_are_made_once_for_each_folder(tmp_path: Path) -> None:
    app, other = Base(), tmp_path / "other"
    other.mkdir()
    for folder in (tmp_path, tmp_path, other):
        assert app.run(Engine(Inline().open()), folder) == 3
    assert (tmp_path / "prepared").read_text() == "once "
    assert (other / "prepared").read_text() == "once "


def test_a_copy_with_other_fields_has_inputs_of_its_own(tmp_path: Path) -> None:
    app = MatMul(size=4)
    app.inputs(tmp_path)
    assert app.model_copy(update={"size": 5}).run(Engine(Inline().open()), tmp_path).shape == (5, 5)


@pytest.mark.parametrize(
    ("app", "wrong"),
    [
        (APPS[0], lambda result: result + 1e-6),
        (APPS[1], lambda result: result + 1),
        (APPS[2], lambda result: (result[0], result[1] - Counter([next(iter(result[1]))]))),
        (APPS[3], lambda result: (result[0], result[1] + Counter(["one too many"]))),
        (APPS[4], lambda result: result[1:]),
        (APPS[5], lambda result: result * (1 + 1e-9)),
        (APPS[6], lambda result: result * (1 + 1e-9)),
        (APPS[7], lambda result: result + 0.001),
        (APPS[7], lambda result: [*result[:5], result[5] + 0.001, *result[6:]]),
        (APPS[7], lambda result: [*result[:-1], float("nan")]),
        (APPS[10], lambda result: result[::-1]),
        (APPS[-3], lambda result: [bytes(26)]),
        (APPS[-1], lambda result: [result[0] + b"x"]),
    ],
)
def test_a_wrong_result_is_seen(app: App, wrong: Any, tmp_path: Path) -> None:
    result = app.run(Engine(Inline().open()), tmp_path)
    with pytest.raises(WrongResult):
        app.check(wrong(result))


class Careless:
    """An executor that changes the arguments of tasks."""

    def __init__(self, changed: Any) -> None:
        self._inner = Inline().open()
        self._changed = changed

    def submit(self, function: Any, /, number: int, *args: Any) -> Any:
        return self._inner.submit(function, *self._changed(number, *args))

    def shutdown(self) -> None: ...


@pytest.mark.parametrize("structure", ["bag", "diamond", "reduce", "sequence"])
@pytest.mark.parametrize(
    ("fault", "changed"),
    [
        ("bytes are lost", lambda *args: (*args[:3], *(args[3:] if args[0] != 3 else [b""]))),
        ("it ran as another", lambda *args: (4 if args[0] == 3 else args[0], *args[1:])),
    ],
)
def test_a_task_that_goes_wrong_in_the_midst_is_seen(
    fault: str, changed: Any, structure: Any, tmp_path: Path
) -> None:
    app = Synthetic(structure=structure, tasks=6, given=10)
    careful = Careless(lambda *args: args)
    assert app.check(app.run(Engine(careful), tmp_path))
    with pytest.raises(WrongResult, match="1 are missing or ran behind others"):
        app.check(app.run(Engine(Careless(changed)), tmp_path))


@pytest.mark.parametrize("structure", ["diamond", "reduce"])
def test_parents_in_another_order_are_seen(structure: Any, tmp_path: Path) -> None:
    app = Synthetic(structure=structure, tasks=6)
    turned = Careless(lambda *args: (*args[:3], *args[:2:-1]))
    with pytest.raises(WrongResult, match="ran behind others"):
        app.check(app.run(Engine(turned), tmp_path))


def curve(*points: tuple[float, float]) -> list[Point]:
    return [Point(busy, busy / efficiency) for busy, efficiency in points]


def test_metg_is_the_granularity_at_which_half_of_the_time_is_lost() -> None:
    app = Metg()
    between = app.figures(curve((1, 0.1), (2, 0.25), (4, 0.75), (8, 0.9)))["metg_us"]
    assert 4 / 0.75 < between < 2 / 0.25
    assert app.figures(curve((1, 0.5), (2, 0.9)))["metg_us"] == 2.0, "the shortest is long enough"
    with pytest.raises(WrongResult, match="lose more than half"):
        app.check(curve((1, 0.1), (2, 0.2)))
    with pytest.raises(WrongResult, match="an efficiency of 2"):
        app.check(curve((1, 0.1), (2, 2.0)))


def test_metg_is_found_on_an_executor() -> None:
    app = Metg(seconds=0.002, pattern="chain")
    assert "METG(50 %) = " in app.check(app.run(Engine(Inline().open()), Path()))


@pytest.mark.parametrize(
    ("cost_us", "first_us", "most"),
    [(0.12, 0.12, 9), (30.0, 30.0, 9), (5_000.0, 5_000.0, 9), (30.0, 3_000.0, 13)],
    ids=["short", "long", "longest", "disturbed"],
)
def test_metg_is_found_with_few_runs(
    cost_us: float, first_us: float, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[float] = []

    def point(_self: Metg, _engine: Engine, busy_us: float) -> Point:
        runs.append(busy_us)
        return Point(busy_us, busy_us + (cost_us if len(runs) > 1 else first_us))

    monkeypatch.setattr(Metg, "_point", point)
    app = Metg()
    found = app.figures(app.run(Engine(Inline().open()), Path()))["metg_us"]
    assert found == pytest.approx(2 * cost_us, rel=0.05)
    assert len(runs) <= most


def test_a_bag_has_no_more_tasks_in_flight_than_it_may() -> None:
    flying, most = 0, 0
    lock = threading.Lock()

    class Counting:
        def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
            nonlocal flying, most
            with lock:
                flying += 1
                most = max(most, flying)
            future = threads.submit(function, *args, **kwargs)
            future.add_done_callback(land)
            return future

        def shutdown(self) -> None: ...

    def land(_future: Any) -> None:
        nonlocal flying
        with lock:
            flying -= 1

    threads = Threads(workers=1).open()
    app = Synthetic(tasks=200, in_flight=3)
    app.check(app.run(Engine(Counting()), Path()))
    threads.shutdown()
    assert most == 3
