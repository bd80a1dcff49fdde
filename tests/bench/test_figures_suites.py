"""Figures about executors and applications: their runs are valid, and their conclusions follow from the numbers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from gristmill_bench import config
from gristmill_bench.errors import BenchError
from gristmill_bench.faults.tables import Cell
from gristmill_bench.faults.verdict import Verdict, Word
from gristmill_bench.figures import suites
from gristmill_bench.figures.data import Data
from gristmill_bench.figures.figure import (
    DOES_NOT_HOLD,
    HOLDS,
    NOT_MEASURED,
    Figure,
    Sweep,
)
from gristmill_bench.figures.session import Session, Tables
from gristmill_bench.figures.suites import failures, makespan, nested, redis_server, travel, workers
from gristmill_bench.figures.suites.applications import (
    DEPTH,
    EDGES,
    LARGEST,
    TASKS,
    WIDTH,
    Shapes,
    Sizes,
    tables_of,
)
from gristmill_bench.figures.suites.features import (
    ON_NODES,
    RETRYING,
    Features,
    Objects,
    all_that_others_can,
)
from gristmill_bench.probes.features import FIRST, FUTURES, RATE
from gristmill_bench.probes.objects import FROM_PROGRAM, INTO_PROGRAM, INTO_TASKS, READ_ONLY
from gristmill_bench.probes.probe import DIES, NO, YES


def verdict(figure: Figure, words: str, data: Data) -> bool:
    """Returns whether the relation of a figure holds whose text contains these words."""
    (relation,) = (one for one in figure.relations if words in one.text)
    return relation.check(data)[0]


def runs() -> Iterator[tuple[str, Tables]]:
    """Yields the runs of this chapter's figures, once for each table."""
    for figure in suites.FIGURES:
        if isinstance(figure, Sweep):
            for point in figure.points():
                yield f"{figure.key} {point.series} {point.at}", point.tables
        elif isinstance(figure, Shapes | Sizes):
            for name, app in figure.apps().items():
                yield f"{figure.key} {name}", tables_of(app)


@pytest.mark.parametrize("tables", [pytest.param(one, id=name) for name, one in runs()])
def test_what_a_figure_runs_can_be_run(tables: Tables) -> None:
    try:
        config.resolve(tables)
    except BenchError as error:
        if "is not available here" not in str(error):
            raise
        pytest.skip(str(error))


def answered(**answers: tuple[float, float]) -> Data:
    """Returns two answers of some executors."""
    data = Data("table", "what", "answers")
    for name, (futures, other) in answers.items():
        data.add(name, FUTURES, futures)
        data.add(name, "other", other)
        data.add(name, RATE, 5.0)
    return data


def test_what_others_can_and_ours_cannot_is_named() -> None:
    alike = answered(ours=(YES, NO), dask=(YES, NO), threads=(NO, DIES))
    assert all_that_others_can("ours")(alike) == (True, "all of 2")
    better = answered(ours=(YES, NO), dask=(YES, YES), ray=(NO, YES))
    assert all_that_others_can("ours")(better) == (False, "dask, ray: other")
    with pytest.raises(LookupError, match="gristmill, retrying was not measured"):
        all_that_others_can(RETRYING)(better)


def test_what_is_lost_on_nodes_is_named() -> None:
    check = partial(verdict, Features(), "on two nodes")
    assert check(answered(gristmill=(YES, NO), **{ON_NODES: (YES, YES)}))
    assert not check(answered(gristmill=(YES, YES), **{ON_NODES: (YES, NO)}))
    with pytest.raises(LookupError, match="two nodes was not measured"):
        check(answered(gristmill=(YES, YES)))


def test_what_the_table_names_as_shown_by_tests_is_there() -> None:
    named = [word.strip("`") for word in Features().about.split() if "tests/" in word]
    assert len(named) == 3
    root = Path(__file__).parents[2]
    assert all((root / name.strip("`,;.")).is_file() for name in named)


def test_who_knows_of_dependencies_is_looked_up() -> None:
    known = {"dask": (YES, NO), "parsl": (YES, NO), "processes": (NO, NO), "threads": (NO, NO)}
    assert verdict(Features(), "dependencies", answered(**known))
    assert not verdict(Features(), "dependencies", answered(**known | {"processes": (YES, NO)}))
    assert not verdict(Features(), "dependencies", answered(**known | {"parsl": (DIES, NO)}))


def test_answers_are_told_in_words_and_rates_in_numbers() -> None:
    assert Features().words(FUTURES, [YES]) == "yes"
    assert Features().words(FUTURES, [NO, DIES]) == "no, the program dies"
    assert Features().words(RATE, [1_234_567.0]) == "1,234,567"
    assert Features().words(FIRST, [0.1234]) == "0.123"


def test_who_can_change_arguments_is_looked_up() -> None:
    data = Data("objects", "what", "answers")
    for row in (READ_ONLY, INTO_PROGRAM, INTO_TASKS, FROM_PROGRAM):
        data.add("ray", row, YES)
        data.add("gristmill", row, NO)
    assert verdict(Objects(), "Ray", data)
    assert verdict(Objects(), "Gristmill", data)
    data.cells[-1].samples[:] = [YES]
    assert not verdict(Objects(), "Gristmill", data)


class Small(Shapes):
    """A diamond and a bag."""

    key = "small"

    def apps(self) -> dict[str, dict[str, object]]:
        return {
            one: {"name": "synthetic", "structure": one, "tasks": 5} for one in ("diamond", "bag")
        }


@pytest.mark.slow
def test_graphs_are_those_of_recorded_runs(tmp_path: Path) -> None:
    data = Small().measure(Session(tmp_path, 3))
    assert data.missing == {}
    found = {
        name: [data.at(what, name) for what in (TASKS, EDGES, DEPTH, WIDTH)]
        for name in ("diamond", "bag")
    }
    assert found == {"diamond": [5, 6, 3, 3], "bag": [5, 0, 1, 5]}
    assert sorted(data.graphs["diamond"].edges) == [(0, 1), (0, 2), (0, 3), (1, 4), (2, 4), (3, 4)]
    assert {len(cell.samples) for cell in data.cells} == {1}


def test_sizes_of_objects_are_compared() -> None:
    data = Data("sizes", "application", "bytes")
    sizes = {"cholesky": 9, "fedlearn": 8, "mapreduce": 10, "docking": 1, "moldesign": 2}
    for name, size in (sizes | {"montage": 3}).items():
        data.add(LARGEST, name, size)
    assert verdict(Sizes(), "smaller than", data)
    assert verdict(Sizes(), "largest ones", data)
    data.add(LARGEST, "montage", 90)
    assert not verdict(Sizes(), "smaller than", data)
    assert not verdict(Sizes(), "largest ones", data)


def makespans(**seconds: float) -> Data:
    """Returns makespans of two applications. The second takes the same time on each engine except ours and Dask."""
    data = Data("spans", "application, engine", "seconds")
    for app in ("cholesky", "montage"):
        for name, whole in seconds.items():
            span = whole if app == "cholesky" else {"gristmill": 0.5, "dask": 0.9}.get(name, 1.0)
            for part in ("start", "run", "shutdown"):
                data.add(part, makespan.place(app, name), span / 3)
    return data


def test_engines_stand_out_if_they_take_half_of_the_time_of_all_others() -> None:
    fast = {"cholesky": {"ray": 4.0}, "moldesign": {"dask": 4.0, "parsl": 5.0}}
    fast["montage"] = {"dask": 5.0}
    data = Data("spans", "application, engine", "seconds")
    for app, own in fast.items():
        for name in ("gristmill", "processes", "parsl", "ray", "dask"):
            for part in ("start", "run", "shutdown"):
                data.add(part, makespan.place(app, name), own.get(name, 10.0) / 3)
    check = partial(verdict, makespan.Makespans(), "twice as fast")
    assert check(data)
    (cell,) = (one for one in data.cells if (one.series, one.at) == ("run", "moldesign, parsl"))
    cell.samples[:] = [2.0]
    assert not check(data)
    data.cells = [one for one in data.cells if one.at != "montage, ray"]
    with pytest.raises(LookupError, match="montage, ray was not measured"):
        check(data)


def test_makespans_are_compared_in_all_their_parts() -> None:
    data = makespans(gristmill=0.5, processes=3, dask=4, ray=2)
    assert makespan.makespan(data, "cholesky", "dask") == pytest.approx(4)
    assert makespan.no_engine_is_best(data) == (True, "cholesky: ray, montage: dask")
    assert makespan.is_best("ray", "cholesky")(data)[0]
    assert not makespan.is_best("dask", "cholesky", "montage")(data)[0]
    assert makespan.ours_is_best(data)[0]
    assert not makespan.ours_is_best(makespans(gristmill=2.5, processes=3, ray=2))[0]
    same = makespans(gristmill=1, processes=0.5, dask=0.4, ray=3)
    assert makespan.no_engine_is_best(same)[0] is False
    with pytest.raises(LookupError):
        makespan.is_best("dask", "docking")(data)


OURS, RETRYING_OURS = "gristmill", "gristmill loss_retries=3"


def failed(name: str, usual: Word, **others: Word) -> Data:
    """Returns the outcomes of tasks on an executor after each kind of failure; ``others`` are the unusual ones."""
    data = Data("failures", "type", "verdicts")
    words = {type: others.get(type.replace("-", "_"), usual) for type in failures.matrix.TYPES}
    cells = {type: {name: [Cell(Verdict(one), "", 1.0, [])]} for type, one in words.items()}
    failures.add(data, cells)
    return data


def verdicts(data: Data) -> list[str]:
    """Returns, for each relation about failures, whether it holds."""
    return [one.verdict(data)[0] for one in failures.Failures().relations]


def test_a_killed_node_may_cost_what_ran_there_and_no_silence() -> None:
    told = failed(OURS, Word.REPORTED, node_killed=Word.OTHERS_LOST, random=Word.OTHERS_LOST)
    assert verdicts(told)[:2] == [HOLDS, HOLDS]
    for word in failures.BAD:
        silent = failed(OURS, Word.REPORTED, node_killed=word)
        assert verdicts(silent)[:2] == [DOES_NOT_HOLD, HOLDS], word
    said = failures.Failures().relations[0].verdict(silent)[1]
    assert said == "gristmill: node-killed: ran twice"
    two_ways = failed(OURS, Word.REPORTED)
    for cell in failed("gristmill nodes=2", Word.REPORTED, timeout=Word.HUNG).cells:
        two_ways.add(cell.series, cell.at, cell.samples[0])
    assert verdicts(two_ways)[0] == DOES_NOT_HOLD
    alone = failed(OURS, Word.REPORTED, worker_killed=Word.OTHERS_LOST)
    assert verdicts(alone)[:2] == [HOLDS, DOES_NOT_HOLD]


def test_where_tasks_run_again_a_killed_node_costs_nothing() -> None:
    killed = dict.fromkeys(("worker_killed", "manager_killed", "node_killed"), Word.RECOVERED)
    assert verdicts(failed(RETRYING_OURS, Word.REPORTED, **killed))[2:] == [HOLDS, HOLDS]
    told = failed(RETRYING_OURS, Word.REPORTED, **killed | {"node_killed": Word.REPORTED})
    assert verdicts(told)[2:] == [HOLDS, DOES_NOT_HOLD]
    others = failed(RETRYING_OURS, Word.REPORTED, **killed | {"node_killed": Word.OTHERS_LOST})
    assert verdicts(others)[2:] == [DOES_NOT_HOLD, DOES_NOT_HOLD]


def test_of_failures_that_were_not_measured_nothing_is_said() -> None:
    for name in (OURS, RETRYING_OURS):
        data = failed(name, Word.RECOVERED, memory=Word.NOT_RUN, node_killed=Word.NOT_RUN)
        assert verdicts(data)[-1] == NOT_MEASURED
        assert HOLDS not in verdicts(data)[:1] + verdicts(data)[2:]
        assert data.missing == {f"{name}, memory": "", f"{name}, node-killed": ""}
    reason = failures.Failures().relations[2].verdict(data)[1]
    assert reason == "gristmill loss_retries=3 was not measured with memory, node-killed"


def test_an_executor_that_runs_nothing_is_told_of_once() -> None:
    data = failed("taskvine", Word.NOT_RUN)
    assert len(data.missing) == len(failures.matrix.TYPES)
    failures.told(data, "taskvine")
    assert data.missing == {"taskvine": ""}
    some = failed(OURS, Word.REPORTED, memory=Word.NOT_RUN)
    failures.told(some, OURS)
    assert some.missing == {f"{OURS}, memory": ""}


def test_verdicts_are_told_with_their_counts_where_they_differ() -> None:
    figure = failures.Failures()
    (cell,) = (one for one in failed("dask", Word.DIED).cells if one.at == "memory")
    assert figure.words(cell.at, [*cell.samples * 2]) == "program died"
    assert figure.words(cell.at, [0.0, 1.0, 1.0]) == "unharmed (1), recovered (2)"


class OneFailure(failures.Failures):
    """One kind of failure on two executors."""

    types = ("zero-division",)
    executors = ("threads", "globus")


@pytest.mark.slow
def test_verdicts_are_those_of_the_matrix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gristmill_bench.plugins._is_installed", lambda name: "globus" not in name)
    data = OneFailure().measure(Session(tmp_path, 3))
    assert [(one.series, one.at) for one in data.cells] == [("threads", "zero-division")]
    assert OneFailure().words("zero-division", data.cells[0].samples) == "reported"
    assert data.missing == {"globus": "pip install globus-compute-sdk"}


def test_threads_that_cost_time_are_told_from_those_that_do_not() -> None:
    data = Data("nested", "threads", "seconds")
    for name, two, unset in (("parsl", 1.0, 1.5), ("ray", 1.5, 1.05), ("dask", 1.5, 1.2)):
        data.add(name, "one thread", 1.0)
        data.add(name, "two threads", two)
        data.add(name, "as installed", unset)
    assert verdict(nested.Nested(), "installed, threads cost Parsl", data)
    assert not verdict(nested.Nested(), "cores cost Parsl", data)
    assert verdict(nested.Nested(), "cost Ray", data)
    assert not verdict(nested.Nested(), "cost Dask", data)


def test_what_another_way_gains_is_that_of_the_best() -> None:
    data = Data("travel", "bytes", "seconds")
    for way, seconds in (("", 9.0), (" with files", 6.0), (" with Redis", 3.0)):
        data.add("dask" + way, 10_000_000, seconds)
    data.add("ray", 10_000_000, 1.0)
    assert travel.times_gained(data, "dask") == 3
    with pytest.raises(LookupError, match="no other way"):
        travel.times_gained(data, "ray")


def test_parsl_comes_closer_to_ray_if_its_share_grows() -> None:
    data = Data("workers", "workers", "tasks/s")
    for count, parsl in ((1, 10.0), (4, 40.0)):
        data.add("parsl", count, parsl)
        data.add("ray", count, 100.0)
    check = partial(verdict, workers.Workers(), "closer")
    assert check(data)
    data.add("ray", 4, 1_000.0, 1_000.0)
    assert not check(data)


def test_the_rate_of_the_suite_is_shown_and_not_compared() -> None:
    data = Data("workers", "workers", "tasks/s")
    for point in workers.Workers().points():
        rate = 5.0 if point.series == "gristmill" else 9.0 if "suite" in point.series else 1.0
        data.add(point.series, point.at, rate)
    check = partial(verdict, workers.Workers(), "Gristmill is faster")
    assert check(data)
    assert set(data.of("none (what the suite costs)")) == {1, 2, 4}
    data.add("threads", 4, 6.0, 6.0)
    assert not check(data)
    data.cells = [cell for cell in data.cells if cell.series != "threads"]
    with pytest.raises(LookupError, match="threads was not measured"):
        check(data)


def test_a_pool_has_to_be_faster_with_all_workers() -> None:
    data = Data("workers", "workers", "tasks/s")
    for name, most in (("processes", 5.0), ("parsl", 1.0), ("ray", 9.0), ("dask", 1.0)):
        for count in (1, 2, 4):
            data.add(name, count, most if count == 4 else 5.0)
    assert not verdict(workers.Workers(), "a pool of processes", data)


def test_a_server_of_objects_ends_with_its_figure() -> None:
    reason = redis_server.missing()
    if reason is not None:
        pytest.skip(reason)
    import redis

    with redis_server.running() as address:
        client = redis.Redis.from_url(address)
        assert client.ping()
        client.close()
    assert not Path(address.removeprefix("unix://")).parent.exists()


def test_with_a_server_each_engine_has_one_way_more() -> None:
    without = {point.series for point in travel.DataSize().points()}
    points = list(travel.DataSize().points("unix:///nowhere"))
    more = [point for point in points if point.series not in without]
    assert {point.tables["transformer"]["url"] for point in more} == {"unix:///nowhere"}
    assert {point.series for point in more} == {f"{name} with Redis" for name in travel.ENGINES}


def test_without_a_server_that_way_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_server, "missing", lambda: "apt-get install redis-server")
    monkeypatch.setattr(travel.DataSize, "points", lambda _self, server: [])
    data = travel.DataSize().measure(Session(Path("unused"), 1))
    assert data.missing["dask with Redis"] == "apt-get install redis-server"
