"""The tasks of applications: their number, their dependencies, their sizes and their durations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from statistics import median

from gristmill_bench.figures.data import Data, Place
from gristmill_bench.figures.figure import Figure, Relation
from gristmill_bench.figures.graphs import Graph
from gristmill_bench.figures.session import Case, Sample, Session, Tables
from gristmill_bench.figures.suites.sizes import DRAWN, PAPERS
from gristmill_bench.replay import formats
from gristmill_bench.replay.recording import Recording

TASKS, EDGES, DEPTH, WIDTH = "tasks", "edges", "depth", "width"
LARGEST, TIME = "largest result, bytes", "median time of a task, ms"
#: Applications with small objects, and with large ones, in the paper's words.
_SMALL, _LARGE = ("docking", "moldesign", "montage"), ("cholesky", "fedlearn", "mapreduce")


def tables_of(app: dict[str, object]) -> Tables:
    """Returns the tables of a run of an application with records, including the sizes of results."""
    return {
        "app": app,
        "executor": {"name": "gristmill", "workers": 2},
        "records": {"name": "json-lines", "sizes": True},
    }


def graph_of(recording: Recording) -> Graph:
    """Returns the graph of a recorded run."""
    edges = [
        (parent, child)
        for child, task in enumerate(recording.tasks)
        for parent in dict.fromkeys(task.parents)
    ]
    return Graph([task.function for task in recording.tasks], edges)


def shape(name: str, graph: Graph) -> Iterator[Sample]:
    """Yields the samples that describe a graph."""
    yield Sample(TASKS, name, len(graph.functions))
    yield Sample(EDGES, name, len(graph.edges))
    yield Sample(DEPTH, name, graph.depth)
    yield Sample(WIDTH, name, graph.width)


class Recorded(Figure):
    """A figure of recorded runs, one for each application."""

    def apps(self) -> dict[str, dict[str, object]]:
        """Returns the fields of each application, by its name in the figure."""
        raise NotImplementedError

    def read(self, data: Data, name: str, recording: Recording) -> Iterator[Sample]:
        """Yields the samples of a run."""
        raise NotImplementedError

    def measure(self, session: Session) -> Data:
        """Runs each application once: its graph is the same every time."""
        data = self.empty()

        def measured(name: str, app: dict[str, object]) -> Sequence[Sample]:
            recording = formats.read(session.run(tables_of(app)))
            return list(self.read(data, name, recording))

        cases = [
            Case(name, name, partial(measured, name, app)) for name, app in self.apps().items()
        ]
        return session.at_most(1).turns(data, cases)

    def words(self, place: Place, samples: Sequence[float]) -> str | None:
        """Returns the count in full, without an interval: counts do not vary between runs."""
        return f"{median(samples):,.4g}" if max(samples) < 10_000 else f"{median(samples):,.0f}"


class Shapes(Recorded):
    """Recorded graphs of the suite's applications, so small that each task can be seen. A task is drawn below the tasks
    whose futures it was given. An application that reads results before it submits more tasks, for example to learn
    between rounds, has no line there. The paper has the first six, and synthetic ones, drawn by hand; there too, the
    number of their tasks depends on their configuration.
    """

    key = "taps-2"
    source = "TaPS, table II and figure 2"
    title = "Graphs of tasks"
    across = "application"
    upward = "what was counted"
    form = "graphs"
    relations = (
        Relation(
            "maps are followed by one task that adds up",
            lambda data: _has(data, "mapreduce", {TASKS: 9, DEPTH: 2, WIDTH: 8}),
        ),
        Relation(
            "a bag has no lines, a sequence is as deep as it has tasks, a diamond has three levels",
            lambda data: _has_all(
                data,
                ("synthetic, bag", {EDGES: 0, DEPTH: 1}),
                ("synthetic, sequence", {DEPTH: 8, WIDTH: 1}),
                ("synthetic, diamond", {DEPTH: 3}),
            ),
        ),
        Relation(
            "three rounds of federated learning are trainings and a mean in turns, then a test",
            lambda data: _has(data, "fedlearn", {DEPTH: 7}),
        ),
        Relation(
            "the tasks of moldesign depend little on each other: fewer lines than tasks",
            lambda data: _is_sparse(data, "moldesign"),
        ),
    )

    def apps(self) -> dict[str, dict[str, object]]:
        """Returns all applications that can be drawn."""
        return DRAWN

    def read(self, data: Data, name: str, recording: Recording) -> Iterator[Sample]:
        """Stores the graph; returns its samples."""
        data.graphs[name] = graph = graph_of(recording)
        return shape(name, graph)


class Sizes(Recorded):
    """The six applications of the paper, in the sizes of the figure of makespans: smaller than on the paper's 64
    workers, but with as many maps, clients, rounds and blocks. Sizes are those of pickled results; arguments that are
    not results of tasks are not measured. The paper's factorization has 385 tasks: it updates the whole matrix,
    Gristmill's only the lower half. The paper counts the trainings of its federated learning; here each round also has
    a mean and a test.
    """

    key = "taps-table-3"
    source = "TaPS, table III"
    title = "Tasks of applications, their results and times"
    across = "application"
    upward = "the units of each column"
    form = "table"
    relations = (
        Relation("32 maps are 33 tasks", lambda data: _has(data, "mapreduce", {TASKS: 33})),
        Relation(
            "a factorization of 10 x 10 blocks is 385 tasks",
            lambda data: _has(data, "cholesky", {TASKS: 385}),
        ),
        Relation(
            "three rounds of 16 clients are 48 tasks",
            lambda data: _has(data, "fedlearn", {TASKS: 48}),
        ),
        Relation(
            "objects of docking, moldesign and montage are smaller than those of the others",
            lambda data: _are_smaller(data),
        ),
        Relation(
            "the largest ones are those of mapreduce",
            lambda data: _is_most(data, LARGEST, "mapreduce"),
        ),
    )

    def apps(self) -> dict[str, dict[str, object]]:
        """Returns the applications of the paper."""
        return {name: {"name": name, **fields} for name, fields in PAPERS.items()}

    def read(self, data: Data, name: str, recording: Recording) -> Iterator[Sample]:
        """Yields the samples of the graph, and the largest result and median time of its tasks."""
        yield from shape(name, graph_of(recording))
        yield Sample(LARGEST, name, max(task.size for task in recording.tasks))
        yield Sample(TIME, name, 1_000 * median(task.seconds for task in recording.tasks))


def _has(data: Data, name: str, expected: dict[str, int]) -> tuple[bool, str]:
    found = {series: round(data.at(series, name)) for series in expected}
    return found == expected, ", ".join(f"{series}: {count}" for series, count in found.items())


def _has_all(data: Data, *expected: tuple[str, dict[str, int]]) -> tuple[bool, str]:
    found = [(name, *_has(data, name, one)) for name, one in expected]
    return all(one[1] for one in found), "; ".join(f"{name}: {said}" for name, _, said in found)


def _is_most(data: Data, series: str, name: str) -> tuple[bool, str]:
    found = {one: data.at(series, one) for one in PAPERS if one in data.places()}
    if name not in found:
        raise LookupError(f"{name} was not measured")
    return name == max(found, key=found.__getitem__), ", ".join(
        f"{one}: {count:,.0f}" for one, count in found.items()
    )


def _is_sparse(data: Data, name: str) -> tuple[bool, str]:
    edges, tasks = data.at(EDGES, name), data.at(TASKS, name)
    return edges < tasks, f"{edges:.0f} lines, {tasks:.0f} tasks"


def _are_smaller(data: Data) -> tuple[bool, str]:
    small = max(data.at(LARGEST, name) for name in _SMALL)
    large = min(data.at(LARGEST, name) for name in _LARGE)
    return small < large, f"at most {small:,.0f} bytes, the others at least {large:,.0f}"
