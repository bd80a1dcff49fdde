"""The activity of threads while tasks pass: profiles of whole runs."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

from gristmill.instruments import CATEGORIES, RUNS
from gristmill_bench.figures.data import Data
from gristmill_bench.figures.figure import Figure, Relation
from gristmill_bench.figures.kernels.queues import EACH, HTEX, ONE, OURS, over
from gristmill_bench.figures.rates import bare
from gristmill_bench.figures.relations import every
from gristmill_bench.figures.session import Case, Sample, Session, Tables

#: Tasks of a profiled run: some seconds for each engine, because a profile needs many samples.
_TASKS, _TASKS_OF_ONE, _TASKS_OF_OURS = 4_000, 50_000, 200_000
#: The names of the workers of each engine here.
_WORKER, _DIRECT = "Parsl: worker", "Parsl, direct: worker"
#: The threads that tasks pass, in their order: process, beginning of the thread's name, label.
_PASSED = {
    "Parsl": (
        ("program", "MainThread", "program"),
        ("program", "Task-Launch", "kernel, launches"),
        ("program", "HTEX-Result", "executor, results"),
        ("HTEX interchange", "MainThread", "interchange"),
        ("HTEX manager", "Interchange-Comm", "manager, tasks"),
        ("HTEX manager", "Result-Shovel", "manager, results"),
        ("HTEX worker", "MainThread", "worker"),
    ),
    "Parsl, direct": (("direct worker", "MainThread", "worker"),),
    "Gristmill": (
        ("program", "MainThread", "program"),
        ("program", "gristmill-atten", "attendant"),
        ("worker", "MainThread", "worker"),
    ),
}
#: Processes that run tasks, by their names in a profile.
_WORKERS = ("HTEX worker", "direct worker", "worker")
_COMMUNICATION = ("poll", "receive", "send", "queue")
#: The states in which a thread sleeps, by the kernel's name, with their labels here.
_STATES = {"receive": "reads", "semaphore": "semaphore", "poll": "polls"}


class Threads(Figure):
    """The time of each thread that a task passes, in ten categories, as ``gristmill profile`` sees it while two workers
    run tasks that do nothing; also that of the one worker of a Parsl program that reaches it directly. The thesis has
    10,000 tasks and 192 workers in 24 managers, and an interchange of three threads; Parsl's now has one. In the
    thesis, operations of Parsl took a fifth of the time of one thread, which received tasks and sent them to the
    interchange. Parsl now has two threads for that. Its operations on a task are now done where tasks are submitted, in
    the thread of the program, which waits for the results for most of a run. The thread that launches only packs and
    sends. It waits for the rest of a run, which with two workers is many times as long as the launching of the tasks.
    The wait of an HTEX worker at its queue is shown as *queue*, both for the semaphore and for the pipe, which stacks
    of Python do not distinguish: see the next profile. The thesis counts the code that runs a task as Python's standard
    library. Here the task's function belongs to the program, and its caller, a tenth of a direct worker's time, to the
    engine. The time of each worker includes its start and imports.
    """

    key = "thesis-2.2"
    source = "Thesis, figures 2.2 and 2.4, right"
    title = "Where the time of threads goes"
    across = "thread"
    upward = "% of its time"
    form = "shares"
    relations = (
        Relation(
            "communication takes most of the time of interchange, manager and worker",
            lambda data: _communicates(
                data,
                ("Parsl: interchange", "Parsl: manager, tasks", _WORKER),
            ),
        ),
        Relation(
            "the interchange polls for most of its time",
            lambda data: _share(data, "poll", "Parsl: interchange", 50),
        ),
        Relation(
            "the manager's thread for tasks polls for 90 % of its time",
            lambda data: _share(data, "poll", "Parsl: manager, tasks", 80),
        ),
        Relation(
            "operations of Parsl are a fifth of the time of the thread that launches",
            lambda data: _share(data, "engine", "Parsl: kernel, launches", 10, 40),
        ),
        Relation(
            "communication takes most of the time of a worker that is reached directly",
            lambda data: _communicates(data, (_DIRECT,)),
        ),
        Relation(
            "what runs tasks, standard library and program, takes a tenth of it, within a factor of two",
            lambda data: _runs_tasks(data),
        ),
    )

    def measure(self, session: Session) -> Data:
        """Measures a profile of each engine."""
        runs = {"Parsl": over(HTEX, 2, _TASKS), "Parsl, direct": over(ONE, 1, _TASKS_OF_ONE)}
        app = {"name": "synthetic", "tasks": _TASKS_OF_OURS}
        runs["Gristmill"] = bare(app, "gristmill", 2)
        cases = [
            Case(name, "profile", partial(_categories, name, session, tables))
            for name, tables in runs.items()
        ]
        return session.turns(self.empty(), cases)


class Waits(Figure):
    """The states in which workers sleep, as the kernel of the system reports them, which distinguishes a semaphore from
    a pipe: of HTEX; of processes that Parsl's kernel reaches directly over one queue, or over one each; and of
    Gristmill, whose workers poll their ring before they sleep at its doorbell, which counts as a semaphore. Workers of
    HTEX now poll their queue's pipe before they read it. One direct worker is that of the right half of figure 2.4,
    four are those of figure 2.6; the thesis has hundreds. Shares are of the time that workers sleep: when they run,
    they mostly start and import.
    """

    key = "thesis-2.6"
    source = "Thesis, section 2.2.1.4 and figures 2.4, right, and 2.6"
    title = "What workers wait for"
    across = "workers"
    upward = "% of the time that they sleep"
    form = "shares"
    relations = (
        Relation(
            "workers of HTEX wait for 60 % at the pipe of their queue, for 40 % at its semaphore, each within 20",
            lambda data: _at_queue(data, f"2, {HTEX}"),
        ),
        Relation(
            "with one worker the semaphore is not waited for",
            lambda data: _most(data, "semaphore", f"1, {ONE}", 5),
        ),
        Relation(
            "workers of one queue wait most at its semaphore",
            lambda data: _above(data, "semaphore", "reads", f"4, {ONE}"),
        ),
        Relation(
            "with a queue each they read in the time that they waited at the semaphore",
            every(
                lambda data: _above(data, "reads", "semaphore", f"4, {EACH}"),
                lambda data: _more_reading(data),
            ),
        ),
    )

    def measure(self, session: Session) -> Data:
        """Measures a profile of each way."""
        cases = []
        for workers, series in ((2, HTEX), (1, ONE), (4, ONE), (4, EACH), (4, OURS)):
            at = f"{workers}, {series}"
            tables = over(series, workers, _TASKS)
            cases.append(Case(at, at, partial(_states, at, session, tables)))
        return session.turns(self.empty(), cases)


def _rows(session: Session, tables: Tables) -> list[dict[str, Any]]:
    """Returns the threads of a profiled run."""
    folder: Path = session.run(tables | {"run": {"profile": True}})
    found = json.loads((folder / "profile" / "profile.json").read_text(encoding="utf-8"))
    rows: list[dict[str, Any]] = found["rows"]
    return rows


def _categories(engine: str, session: Session, tables: Tables) -> list[Sample]:
    return by_category(engine, _rows(session, tables))


def _states(at: str, session: Session, tables: Tables) -> list[Sample]:
    return by_state(at, _rows(session, tables))


def by_category(engine: str, rows: list[dict[str, Any]]) -> list[Sample]:
    """Returns percentages for the threads that tasks pass, in all categories, also those without time."""
    samples = []
    for process, thread, called in _PASSED[engine]:
        of = [one for one in rows if one["process"] == process and one["thread"].startswith(thread)]
        looks = sum(one["looks"] for one in of)
        for category in CATEGORIES if looks else ():
            count = sum(one["categories"].get(category, 0) for one in of)
            samples.append(Sample(category, f"{engine}: {called}", 100 * count / looks))
    return samples


def by_state(at: str, rows: list[dict[str, Any]]) -> list[Sample]:
    """Returns percentages of the samples of workers' main threads that found them asleep, by state."""
    of = [
        one["states"]
        for one in rows
        if one["process"] in _WORKERS and one["thread"] == "MainThread"
    ]
    looks = sum(count for one in of for state, count in one.items() if state != RUNS)
    if not looks:
        return []
    shares = {
        called: 100 * sum(one.get(state, 0) for one in of) / looks
        for state, called in _STATES.items()
    }
    shares["else"] = max(0.0, 100 - sum(shares.values()))
    return [Sample(called, at, share) for called, share in shares.items()]


def _communicates(data: Data, threads: tuple[str, ...]) -> tuple[bool, str]:
    shares = {one: sum(data.at(name, one) for name in _COMMUNICATION) for one in threads}
    return min(shares.values()) > 50, ", ".join(f"{at} {one:.0f} %" for at, one in shares.items())


def _share(
    data: Data, series: str, place: str, least: float, most: float = 100
) -> tuple[bool, str]:
    share = data.at(series, place)
    return least <= share <= most, f"{share:.0f} %"


def _runs_tasks(data: Data) -> tuple[bool, str]:
    shares = {name: data.at(name, _DIRECT) for name in ("standard library", "program")}
    text = ", ".join(f"{name} {share:.0f} %" for name, share in shares.items())
    return 5 <= sum(shares.values()) <= 20, text


def _at_queue(data: Data, place: str) -> tuple[bool, str]:
    pipe = data.at("reads", place) + data.at("polls", place)
    semaphore = data.at("semaphore", place)
    return 40 <= pipe <= 80 and 20 <= semaphore <= 60, f"{pipe:.0f} % and {semaphore:.0f} %"


def _most(data: Data, series: str, place: str, most: float) -> tuple[bool, str]:
    return _share(data, series, place, 0, most)


def _above(data: Data, one: str, other: str, place: str) -> tuple[bool, str]:
    more, less = data.at(one, place), data.at(other, place)
    return more > less, f"{more:.0f} % and {less:.0f} %"


def _more_reading(data: Data) -> tuple[bool, str]:
    each, one = (data.at("reads", f"4, {name}") for name in (EACH, ONE))
    return each > one, f"{each:.0f} % in place of {one:.0f} %"
