"""Figures of papers are measured again and drawn, and their relations are checked against the measurements."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from gristmill import _cli
from gristmill_bench.errors import BenchError
from gristmill_bench.figures import catalogue, drawing, page, shapes
from gristmill_bench.figures.data import Data, Place, read
from gristmill_bench.figures.figure import Figure, Relation, Sweep
from gristmill_bench.figures.graphs import Graph
from gristmill_bench.figures.rates import bare
from gristmill_bench.figures.relations import alike, at_least, every, grows, highest
from gristmill_bench.figures.session import Case, Point, Sample, Session, Summary


def rates() -> Data:
    """Returns rates of two engines at two worker counts: one is ten times as fast as the other, and both grow."""
    data = Data("test", "workers", "tasks/s", missing={"third": "pip install third"})
    for samples in ((90.0, 200.0), (110.0, 210.0), (100.0, 190.0)):
        for workers, rate in zip((1, 2), samples, strict=True):
            data.add("fast", workers, 10 * rate)
            data.add("slow", workers, rate)
    return data


@pytest.mark.parametrize(
    ("check", "holds", "numbers"),
    [
        (at_least("fast", 10, "slow", (1, 2)), True, "10x"),
        (at_least("fast", 11, "slow", (1, 2)), False, "10x"),
        (alike("fast", "slow", 10, (1,)), True, "10x"),
        (alike("slow", "fast", 9, (1,)), False, "0.1x"),
        (highest("fast", ("slow",), (1, 2)), True, "at least 10x slow"),
        (highest("slow", ("fast",), (1,)), False, "at least 0.1x fast"),
        (grows("slow", 2, 1, 2), True, "2x from 1 to 2"),
        (
            every(grows("slow", 2, 1, 2), grows("slow", 2.1, 1, 2)),
            False,
            "2x from 1 to 2; 2x from 1 to 2",
        ),
    ],
)
def test_a_relation_is_looked_up_in_medians(check: object, holds: bool, numbers: str) -> None:
    assert callable(check)
    assert check(rates()) == (holds, numbers)


def test_a_relation_of_what_was_not_measured_is_neither_right_nor_wrong() -> None:
    with pytest.raises(LookupError, match="third was not measured: pip install third"):
        at_least("third", 1, "fast", (1,))(rates())
    with pytest.raises(LookupError, match="fast at 7 was not measured"):
        at_least("fast", 1, "slow", (7,))(rates())


def test_nothing_is_the_highest_beside_what_is_missing() -> None:
    data = rates()
    data.add("elsewhere", 7, 1e6)
    for other, reason in (("third", "pip install third"), ("elsewhere", "elsewhere at 1")):
        with pytest.raises(LookupError, match=reason):
            highest("fast", ("slow", other), (1, 2))(data)


class Threads(Sweep):
    """Threads, no executor, and an executor that does not exist."""

    key = "threads"
    source = "Anon, figure 0"
    title = "Threads"
    across = "tasks"
    upward = "tasks"
    relations = (
        Relation("more are more", grows("threads", 2, 5, 10)),
        Relation("they are not alike", at_least("threads", 2, "inline", (5,))),
        Relation("another is better", highest("missing", ("threads",), (5,))),
    )

    def points(self) -> Iterator[Point]:
        for tasks in (5, 10):
            for name in ("threads", "inline", "missing"):
                app = {"name": "synthetic", "tasks": tasks}
                yield Point(name, tasks, bare(app, name, 1))

    def value(self, summary: Summary) -> float:
        return float(summary["tasks"])


@pytest.mark.slow
def test_reproduce_measures_draws_and_says_what_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(catalogue, "FIGURES", {"threads": Threads()})
    monkeypatch.setattr(page, "CHAPTERS", {"Threads and others": (Threads(),)})
    command = ["bench", "reproduce", "threads", "--folder", str(tmp_path)]
    assert _cli.main([*command, "--repeats", "2"]) == 0
    data = read(tmp_path / "threads.json")
    assert data.at("threads", 10) == 10
    assert {len(cell.samples) for cell in data.cells} == {2}
    assert "there is no executor" in data.missing["missing"]
    written = (tmp_path / "index.md").read_text()
    captured = capsys.readouterr()
    assert captured.out.strip() == str(tmp_path / "index.md")
    said = captured.err.splitlines()
    assert said[0] == "figures: 1, runs: 8", "two executors that there are, two places, twice"
    assert said[-3:] == [
        "threads: holds: more are more (2x from 5 to 10)",
        "threads: does not hold: they are not alike (1x)",
        "threads: not measured: another is better (missing was not measured: "
        + f"{data.missing['missing']})",
    ]
    for line in (
        "| more are more | holds | 2x from 5 to 10 |",
        "| they are not alike | **does not hold** | 1x |",
        "| another is better | not measured | missing was not measured",
        "| 10 | 10 (10-10; 2) | 10 (10-10; 2) |",
    ):
        assert line in written
    picture = (tmp_path / "threads.svg").read_text()
    assert "threads" in picture
    assert _cli.main([*command, "--page-only"]) == 0
    assert (tmp_path / "index.md").read_text() == written
    assert (tmp_path / "threads.svg").read_text() == picture


class Shares(Figure):
    """Two runs, each of two parts."""

    key = "shares"
    source = "Anon, figure 1"
    title = "Shares"
    across = "run"
    upward = "%"
    form = "shares"

    def measure(self, session: Session) -> Data:
        def parts(run: str, work: float) -> list[Sample]:
            return [Sample("work", run, work), Sample("rest", run, 100 - work)]

        def fails() -> list[Sample]:
            raise BenchError("it is broken")

        cases = [
            Case("first", "first", lambda: parts("first", 80)),
            Case("second", "second", lambda: parts("second", 30)),
            Case("third", "third", fails),
        ]
        return session.turns(self.empty(), cases)


class Named(Shares):
    """The same figure as a table."""

    key = "named"
    title = "Named"
    form = "table"


def test_what_measures_itself_is_drawn_in_shares_or_put_into_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    figures = (Shares(), Named())
    monkeypatch.setattr(catalogue, "FIGURES", {one.key: one for one in figures})
    monkeypatch.setattr(page, "CHAPTERS", {"Parts": figures})
    command = ["bench", "reproduce", "all", "--folder", str(tmp_path), "--repeats", "1"]
    assert _cli.main(command) == 0
    written = (tmp_path / "index.md").read_text()
    for line in (
        "## Parts",
        "### Shares",
        "![Shares](shares.svg)",
        "### Named",
        "| first | 80 (80-80; 1) | 20 (20-20; 1) |",
        "- third is missing: at third: it is broken",
    ):
        assert line in written.splitlines()
    assert {one.name for one in tmp_path.glob("*.svg")} == {"shares.svg"}


def test_many_ways_of_engines_are_a_panel_for_each_engine(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    data = Data("test", "bytes", "seconds")
    for engine in ("first", "second", "third", "fourth"):
        for way in ("", " with files", " with Redis"):
            for size in (1_000, 10_000_000):
                data.add(engine + way, size, float(size))
    drawing.draw(data, "Ways", tmp_path / "ways.svg")
    texts = re.findall(r"<text [^>]*>([^<]+)</text>", (tmp_path / "ways.svg").read_text())
    for engine in ("first", "second", "third", "fourth"):
        assert texts.count(engine) == 1
    for way in ("its own way", "files", "Redis"):
        assert texts.count(way) == 1


def test_a_way_that_an_engine_lacks_is_named_and_looks_as_in_the_panels_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    matplotlib = pytest.importorskip("matplotlib.axes")
    colours: dict[str, set[str]] = {}

    def note(_area: object, _across: object, _upward: object, label: str, **look: Any) -> None:
        colours.setdefault(label, set()).add(look["color"] + look["marker"])
        original(_area, _across, _upward, label=label, **look)

    original = matplotlib.Axes.errorbar
    monkeypatch.setattr(matplotlib.Axes, "errorbar", note)
    data = Data("test", "bytes", "seconds")
    for engine in ("first", "second", "third", "fourth"):
        for way in ("", " with files", " with Redis"):
            for size in (1_000, 10_000_000):
                if (engine, way) != ("first", " with files"):
                    data.add(engine + way, size, float(size))
    drawing.draw(data, "Ways", tmp_path / "ways.svg")
    assert ">files<" in (tmp_path / "ways.svg").read_text()
    assert sorted(map(len, colours.values())) == [1, 1, 1]
    assert len(set.union(*colours.values())) == 3


def test_one_place_makes_a_row_of_each_series(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(page, "CHAPTERS", {"Threads and others": (Threads(),)})
    where = {"day": "today", "cpu": "one", "cores_allowed": 1, "python": "3", "load_1_min": 0.0}
    data = Data("test", "", "us", environment=where | {"versions": {}})
    data.add("fast", "time", 1.0)
    data.add("slow", "time", 20.0)
    data.write(tmp_path / "threads.json")
    written = page.write(tmp_path).read_text()
    for line in ("|  | time |", "| fast | 1 (1-1; 1) |", "| slow | 20 (20-20; 1) |"):
        assert line in written.splitlines()


def test_what_never_ends_is_ended_and_left_out(tmp_path: Path) -> None:
    alarms = signal.getitimer(signal.ITIMER_REAL)[0]
    session = Session(tmp_path, 2, timeout_s=0.002)
    never = Case("never", 1, lambda: [Sample("never", 1, float(threading.Event().wait()))])
    at_once = Case("at once", 1, lambda: [Sample("at once", 1, 2.0)])
    data = session.turns(Shares().empty(), [never, at_once])
    assert data.missing == {"never": "at 1: it did not end within 0.01 s"}
    assert data.at("at once", 1) == 2
    assert (signal.getitimer(signal.ITIMER_REAL)[0] > 0) == (alarms > 0), "others go on"


def test_what_a_call_raises_is_the_reason_that_its_series_is_left_out(tmp_path: Path) -> None:
    def fail() -> Iterator[Sample]:
        raise OSError(28, "No space left on device")

    at_once = Case("at once", 1, lambda: [Sample("at once", 1, 2.0)])
    data = Session(tmp_path, 1).turns(Shares().empty(), [Case("full", 1, fail), at_once])
    assert data.missing == {"full": "at 1: OSError: [Errno 28] No space left on device"}
    assert data.at("at once", 1) == 2


def test_why_a_series_is_left_out_names_no_folder_of_the_machine(tmp_path: Path) -> None:
    def fail() -> Iterator[Sample]:
        raise BenchError(f"the run in {tmp_path}/runs/first did not end")

    data = Session(tmp_path, 1).turns(Shares().empty(), [Case("first", 1, fail)])
    assert data.missing == {"first": "at 1: the run in runs/first did not end"}


def test_a_figure_of_what_is_not_here_does_not_keep_the_page_from_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")

    class Absent(Threads):
        """An executor that does not exist."""

        key = "absent"

        def points(self) -> Iterator[Point]:
            return (point for point in super().points() if point.series == "missing")

    figures = (Absent(), Shares())
    monkeypatch.setattr(catalogue, "FIGURES", {one.key: one for one in figures})
    monkeypatch.setattr(page, "CHAPTERS", {"Parts": figures})
    command = ["bench", "reproduce", "all", "--folder", str(tmp_path), "--repeats", "1"]
    assert _cli.main(command) == 0
    written = (tmp_path / "index.md").read_text()
    assert "- missing is missing: there is no executor 'missing'" in written
    assert "absent.svg" not in written
    assert "![Shares](shares.svg)" in written


def test_bars_of_all_series_stand_side_by_side(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    drawing.draw(rates(), "Rates", tmp_path / "bars.svg", "bars")
    picture = (tmp_path / "bars.svg").read_text()
    assert "fast" in picture
    assert "slow" in picture


class Words(Shares):
    """The same figure as words, measured once."""

    key = "words"
    title = "Words"
    form = "table"

    def words(self, place: Place, samples: Sequence[float]) -> str | None:
        return "much" if max(samples) > 50 else None

    def measure(self, session: Session) -> Data:
        return super().measure(session.at_most(1))


def test_a_table_has_words_where_samples_stand_for_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue, "FIGURES", {"words": Words()})
    monkeypatch.setattr(page, "CHAPTERS", {"Words": (Words(),)})
    command = ["bench", "reproduce", "words", "--folder", str(tmp_path), "--repeats", "3"]
    assert _cli.main(command) == 0
    lines = (tmp_path / "index.md").read_text().splitlines()
    assert "| first | much | 20 (20-20; 1) |" in lines
    assert "| second | 30 (30-30; 1) | much |" in lines


class Shared(Words):
    """A table that another page contains as well."""

    key = "shared"
    elsewhere = "../other.md"


def test_a_table_is_written_into_the_other_page_that_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue, "FIGURES", {"shared": Shared()})
    monkeypatch.setattr(page, "CHAPTERS", {"Words": (Shared(),)})
    other = tmp_path / "other.md"
    other.write_text("Before.\n\n<!-- shared -->\nold\n<!-- end of shared -->\n\nBehind.\n")
    command = ["bench", "reproduce", "shared", "--folder", str(tmp_path / "results")]
    assert _cli.main([*command, "--repeats", "1"]) == 0
    written = other.read_text()
    assert written.startswith("Before.\n\n<!-- shared -->\n| run | work | rest |\n")
    assert "| first | much | 20 (20-20; 1) |\n" in written
    assert "\nMeasured " in written
    assert written.endswith("\n<!-- end of shared -->\n\nBehind.\n")
    assert "old" not in written
    assert _cli.main([*command, "--page-only"]) == 0
    assert other.read_text() == written


def test_a_page_without_marks_is_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "CHAPTERS", {"Words": (Shared(),)})
    folder, other = tmp_path / "results", tmp_path / "other.md"
    folder.mkdir()
    rates().write(folder / "shared.json")
    other.write_text("<!-- shared -->\nof another page\n")
    monkeypatch.setattr(page, "_where", lambda _data: "here")
    page.write(folder)
    assert other.read_text() == "<!-- shared -->\nof another page\n"


def diamond() -> Graph:
    """Returns a graph of two tasks between two others, with a direct edge from the first to the last."""
    return Graph(["open", "work", "work", "close"], [(0, 1), (0, 2), (1, 3), (2, 3), (0, 3)])


def test_a_graph_has_levels() -> None:
    assert diamond().levels() == [0, 1, 1, 2]
    assert (diamond().depth, diamond().width) == (3, 2)
    assert (Graph([], []).depth, Graph([], []).width) == (0, 0)
    assert [down for _, down in shapes.positions(diamond())] == [0, -1, -1, -2]


def test_graphs_are_drawn_side_by_side_and_kept(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    data = Data(
        "graphs", "application", "tasks", graphs={"ours": diamond(), "one": Graph(["f"], [])}
    )
    data.add("tasks", "ours", 4)
    data.write(tmp_path / "graphs.json")
    assert read(tmp_path / "graphs.json").graphs == data.graphs
    drawing.draw(data, "Graphs", tmp_path / "graphs.svg", "graphs")
    picture = (tmp_path / "graphs.svg").read_text()
    for text in ("ours: 4 tasks", "one: 1 task<", "close"):
        assert text in picture


def test_a_diagram_has_a_box_for_each_component_and_arrows_between(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    data = Data("test", "where", "us")
    for name in ("kernel: takes", "socket to the queue", "queue: reads", "queue: sends"):
        data.add("Parsl", name, 12.0)
    data.add("Parsl", "socket back", 0.5)
    drawing.draw(data, "A way", tmp_path / "way.svg", "diagram")
    picture = (tmp_path / "way.svg").read_text()
    for text in ("kernel", "reads  12 us", "sends  12 us", "socket back  0.5 us", "A way"):
        assert text in picture


def test_turns_have_the_same_cases_in_orders_that_are_drawn(tmp_path: Path) -> None:
    seen: list[int] = []

    def case(number: int) -> Case:
        return Case(
            "ours", number, lambda: [Sample("ours", number, float(seen.append(number) or 1))]
        )

    data = Session(tmp_path, 2).turns(Data("test", "number", "times"), [*map(case, range(20))])
    first, second = seen[:20], seen[20:]
    assert first == list(range(20)) == sorted(second) != second
    assert all(len(cell.samples) == 2 for cell in data.cells)


def test_twenty_series_look_different(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    data = Data("test", "bytes", "seconds")
    for number in range(20):
        for place in (1.0, 2.0):
            data.add(f"series {number}", place, number + place)
    drawing.draw(data, "Many", tmp_path / "many.svg")
    picture = (tmp_path / "many.svg").read_text()
    # Ten of the curves, and their keys, have dashes.
    assert picture.count("stroke-dasharray") == 20


def test_a_histogram_has_how_often_each_value_came(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    data = Data("test", "of run times", "seconds")
    data.add("slow", "calls", 1.0, 1.1, 90.0)
    data.add("quick", "calls", 0.1, 0.1, 0.1)
    data.add("quick", "mean", 0.1)
    drawing.draw(data, "Run times", tmp_path / "times.svg", "histogram")
    picture = (tmp_path / "times.svg").read_text()
    for text in ("slow", "quick", ">calls<", ">seconds<", "Run times"):
        assert text in picture


def test_what_cannot_be_reproduced_is_said_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _cli.main(["bench", "reproduce"]) == 2
    assert "no figure is named" in capsys.readouterr().err
    assert _cli.main(["bench", "reproduce", "taps-99"]) == 2
    assert "no figure 'taps-99'; there are: all, thesis-2." in capsys.readouterr().err
    (tmp_path / "file").touch()
    assert _cli.main(["bench", "reproduce", "all", "--folder", str(tmp_path / "file")]) == 2
    assert "--folder" in capsys.readouterr().err
    (tmp_path / "taps-4.json").write_text("[]")
    command = ["bench", "reproduce", "taps-4", "--page-only", "--folder", str(tmp_path)]
    assert _cli.main(command) == 2
    assert "taps-4.json has no measurements" in capsys.readouterr().err
