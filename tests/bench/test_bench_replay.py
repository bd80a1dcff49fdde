"""Recorded runs are replayed: on executors, where every step is checked, and in virtual time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gristmill._cli import main
from gristmill_bench import BenchError, Engine, WrongResult
from gristmill_bench.apps.replay import Replay, Run
from gristmill_bench.executors.here import Inline, Threads
from gristmill_bench.executors.ours import Gristmill
from gristmill_bench.executors.pools import Processes
from gristmill_bench.interfaces import Backend
from gristmill_bench.replay import forecast

from recorded import line, workflow, write_lines


@pytest.fixture
def diamond(tmp_path: Path) -> Path:
    """Writes a record of four tasks that take hardly any time and carry bytes."""
    return write_lines(
        tmp_path / "tasks.jsonl",
        line("top", 0.001, at=10.0, size=500),
        line("left", 0.001, ["top"], at=10.001, size=20),
        line("right", 0.001, ["top"], at=10.002),
        line("join", 0.001, ["left", "right", "left"], at=10.003, size=100_000),
    )


@pytest.mark.parametrize("work", ["spin", "sleep"])
@pytest.mark.parametrize(
    "executor",
    [Inline(), Threads(), Processes(start="fork"), Gristmill()],
    ids=lambda one: type(one).__name__,
)
def test_a_record_is_replayed_on_any_executor(
    executor: Any, work: Any, diamond: Path, tmp_path: Path
) -> None:
    app = Replay(record=diamond, work=work, arrivals="recorded")
    backend = executor.open()
    result = app.run(Engine(backend, workers=executor.workers), tmp_path)
    backend.shutdown()
    assert app.check(result) == "4 tasks of tasks.jsonl"
    figures = app.figures(result)
    assert figures["critical-path_s"] == pytest.approx(0.003)
    assert figures["recorded_s"] == pytest.approx(0.004)
    assert figures["replayed_s"] >= figures["critical-path_s"]
    assert not (tmp_path / "begun").exists(), "nothing is left"


def test_tasks_carry_the_bytes_that_were_recorded(diamond: Path, tmp_path: Path) -> None:
    given: list[list[int]] = []
    inner = Inline().open()

    class Spy:
        def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
            future = inner.submit(function, *args, **kwargs)
            given.append([len(one.result()) for one in args[5:]] + [len(future.result())])
            return future

        def shutdown(self) -> None: ...

    Replay(record=diamond, size_scale=2.0).run(Engine(Spy()), tmp_path)
    top, left, right, join = 16 + 1_000, 16 + 40, 16, 16 + 200_000
    assert given == [[top], [top, left], [top, right], [left, right, left, join]]


class _Careless:
    """An executor that drops an argument of some tasks, or runs tasks twice."""

    def __init__(self, *, forgets: bool) -> None:
        self._inner = Inline().open()
        self._forgets = forgets

    def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        if self._forgets:
            args = args[:5]
        elif args[0] == 1:
            self._inner.submit(function, *args, **kwargs)
        return self._inner.submit(function, *args, **kwargs)

    def shutdown(self) -> None: ...


@pytest.mark.parametrize(
    ("backend", "says"),
    [
        (_Careless(forgets=True), "task 'join' did not run behind all that it needs"),
        (_Careless(forgets=False), "task 'left' has begun 2 times, not once"),
    ],
)
def test_what_runs_twice_or_without_its_parents_is_wrong(
    backend: Backend, says: str, diamond: Path, tmp_path: Path
) -> None:
    app = Replay(record=diamond)
    with pytest.raises(WrongResult, match=says):
        app.check(app.run(Engine(backend), tmp_path))


def test_without_a_witness_only_ends_are_looked_at(diamond: Path, tmp_path: Path) -> None:
    app = Replay(record=diamond, witness=False)
    result = app.run(Engine(_Careless(forgets=False)), tmp_path)
    assert result.begun is None
    assert app.check(result)
    assert isinstance(result, Run)


@pytest.mark.slow
def test_the_command_replays_what_a_run_has_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--executor", "inline", "--run.folder", str(tmp_path)]
    first = ["--app", "synthetic", "--app.structure", "diamond", "--app.tasks", "9"]
    noted = ["--app.size", "3000", "--records.sizes", "true"]
    assert main(["bench", "run", *first, *noted, *words]) == 0
    folder = capsys.readouterr().out.splitlines()[-1]
    assert main(["bench", "replay", folder, *words, "--app.work", "spin"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "replay on inline: 9 tasks of tasks.jsonl"
    figures = json.loads((Path(said[-1]) / "summary.json").read_text())["figures"]
    assert set(figures) == {"replayed_s", "recorded_s", "critical-path_s", "bound_s"}
    assert main(["bench", "replay", folder, "--nodes", "3", "--workers", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["tasks"], sum(found["tasks_of_nodes"]), len(found["tasks_of_nodes"])) == (9, 9, 3)
    assert found["bytes_received"] > 9 * 3_000


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--nodes", "3"], "a simulation needs --workers"),
        (["--nodes", "0", "--workers", "1"], "--nodes: Input should be greater than or equal to 1"),
        (["--workers", "70000"], "--workers: Input should be less than or equal to 65535"),
        (
            ["--nodes", "65000", "--workers", "65000"],
            "--workers: Value error, 4,225,000,000 workers are more than are simulated, 5,000,000",
        ),
        (["--workers", "2", "--executor", "inline"], "executor is for a run"),
        (["--workers", "2", "--run.folder", "x"], "run is for a run"),
        (["--workers", "2", "--cost.hop", "3"], "there is no cost.hop; there are: program_ns,"),
        (["--workers", "2", "--cost.hop_ns", "far"], "cost.hop_ns: 'far' is no number"),
        (["--workers", "2", "--cost.hop_ns", "-1"], ": cost.hop_ns is from 0 to"),
        (["--workers", "2", "--cost.scatter", "nan"], "scatter is from 0 to 2, not NaN"),
        (["--workers", "2", "--app.scale", "0"], "app.scale: Input should be greater than 0"),
        (["--app.arrivals", "sometimes"], "app.arrivals: Input should be"),
    ],
)
def test_what_cannot_be_replayed_is_refused_with_words(
    words: list[str], says: str, diamond: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "replay", str(diamond), *words]) == 2
    assert says in capsys.readouterr().err


def test_times_that_were_not_recorded_cannot_be_kept(tmp_path: Path) -> None:
    (tmp_path / "it.json").write_text(json.dumps(workflow({"a": (1.0, [])})))
    with pytest.raises(BenchError, match=r"does not say when tasks were submitted"):
        Replay(record=tmp_path / "it.json", arrivals="recorded")


def test_what_is_simulated_is_the_record_that_is_named(
    diamond: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = ["--app.record", str(diamond.with_name("other.jsonl"))]
    assert main(["bench", "replay", str(diamond), "--workers", "2", *other]) == 0
    assert capsys.readouterr().out.startswith("4 tasks on 2 workers")


def simulate(record: Path, nodes: int | None, workers: int, **costs: float) -> dict[str, Any]:
    cluster = forecast.Cluster(nodes=nodes, workers=workers)
    return forecast.forecast(Replay(record=record), cluster, forecast.costs(costs))


def test_a_bag_takes_its_rounds_on_any_cluster(tmp_path: Path) -> None:
    bag = write_lines(tmp_path / "tasks.jsonl", *(line(str(one), 2.0) for one in range(100)))
    for nodes, workers, rounds in [
        (None, 1, 100),
        (None, 8, 13),
        (2, 8, 7),
        (50, 1, 2),
        (1000, 64, 1),
    ]:
        found = simulate(bag, nodes, workers)
        assert 2.0 * rounds <= found["makespan_s"] < 2.0 * rounds + 0.1
        assert found["utilisation"] == pytest.approx(
            200 / found["makespan_s"] / workers / (nodes or 1)
        )


def test_a_longer_way_takes_longer_and_bytes_take_their_time(tmp_path: Path) -> None:
    record = write_lines(
        tmp_path / "tasks.jsonl",
        line("a", 0.001, size=500_000_000),
        *(line(f"b{one}", 1.0, ["a"]) for one in range(4)),
    )
    near, far = (simulate(record, 4, 1, hop_ns=hop) for hop in (1e4, 1e8))
    assert far["makespan_s"] - near["makespan_s"] > 0.3
    # The result goes to the client, and from there to a node that has not made it: half a second each.
    slow, fast = (simulate(record, 4, 1, link_rate=rate) for rate in (1e9, 1e12))
    assert slow["makespan_s"] - fast["makespan_s"] > 0.9


def test_a_forecast_is_a_function_of_its_seed(
    diamond: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = []
    for seed in ("1", "1", "2"):
        assert (
            main(["bench", "replay", str(diamond), "--workers", "2", "--seed", seed, "--json"]) == 0
        )
        said.append(json.loads(capsys.readouterr().out))
    assert said[0] == said[1]
    assert said[0]["makespan_s"] != said[2]["makespan_s"]


@pytest.mark.slow
def test_a_run_is_forecast_at_its_own_scale_as_what_it_took_on_an_idle_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--app", "stencil", "--app.width", "4", "--app.steps", "5", "--app.busy-us", "10000"]
    words += ["--executor", "gristmill", "--run.warmup", "10", "--run.folder", str(tmp_path)]
    assert main(["bench", "run", *words]) == 0
    found = simulate(Path(capsys.readouterr().out.splitlines()[-1]), None, 2)
    # Other load on the machine makes the run longer, but does not change its forecast.
    assert 0.1 <= found["bound_s"] <= found["makespan_s"] <= 1.02 * found["recorded_s"]
