"""A run: a process of its own, with a folder that documents it in full."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

from gristmill import instruments
from gristmill.instruments import THREAD_VARIABLES
from gristmill_bench import apart, run_names
from gristmill_bench.borders.hops import TimedBackend
from gristmill_bench.config import Benchmark
from gristmill_bench.engine import Engine
from gristmill_bench.errors import BenchError, RunFailed
from gristmill_bench.executors import cgroups
from gristmill_bench.executors.base import ExecutorPlugin
from gristmill_bench.executors.groups import GroupedExecutor
from gristmill_bench.folder import CONFIGURATION, LOG, PROFILE, SUMMARY
from gristmill_bench.interfaces import Backend

#: The phase that is not part of the makespan: the application uses it before its first task.
PREPARE = "prepare"


def nothing(number: int) -> int:
    """Returns its argument; the task of the warm-up."""
    return number


def new_folder(benchmark: Benchmark, about: str) -> Path:
    """Makes a folder named after the application, ``about``, and the time."""
    now = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    name = f"{benchmark.name('app')}-{about}-{now}"
    for number in range(1_000):
        folder = benchmark.run.folder / (f"{name}-{number}" if number else name)
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise BenchError(f"run.folder: {folder}: {error.strerror}") from error
        return folder
    raise BenchError(f"run.folder: {benchmark.run.folder} has a thousand runs of this second")


def start(benchmark: Benchmark, folder: Path | None = None) -> Path:
    """Runs a benchmark in a process of its own; returns its folder.

    Raises ``RunFailed`` if the run did not finish, or not in its time, and ``BenchError`` if it was not started.
    """
    is_apart = benchmark.run.apart or benchmark.app.is_harmful()
    fenced = apart.command([], folder or benchmark.run.folder) if is_apart else []
    is_made = folder is None
    folder = folder or new_folder(benchmark, benchmark.name("executor"))
    try:
        # A run never uses a folder that another run has left.
        folder.mkdir(exist_ok=is_made)
        (folder / CONFIGURATION).write_text(benchmark.to_toml(), encoding="utf-8")
    except OSError as error:
        raise BenchError(f"{folder}: {error.strerror}") from error
    seconds = benchmark.run.timeout or benchmark.app.run_timeout
    # Temporary folders that its engines make are removed with the run, however it ends.
    prefix = "" if "TMPDIR" in benchmark.run.environment else "gb-"
    command = [str(seconds or 0), str(folder / LOG), prefix, *fenced]
    child = ["-m", "gristmill_bench.child", str(folder)]
    if benchmark.run.profile:
        # The last line of the log is the reason of a failed run, so the profiler must not print there.
        output = ["--quiet", "--output", str(folder / PROFILE)]
        command += instruments.own_command("profile", *output, "--", *child)
    else:
        command += [sys.executable, "-P", *child]
    name = run_names.new()
    try:
        told = variables(benchmark) | {run_names.VARIABLE: name}
        status = instruments.run_below(command, told)
    finally:
        if isinstance(benchmark.executor, GroupedExecutor) and benchmark.executor.groups:
            cgroups.sweep(name)
        if benchmark.transformer is not None:
            benchmark.transformer.sweep(folder, name)
    if status == instruments.TIMED_OUT:
        raise RunFailed(f"the run in {folder} did not end within {seconds:g} s", None)
    if status != 0:
        said = instruments.last_line(folder / LOG)
        raise RunFailed(
            f"the run in {folder} ended with {status}: {said} (see {LOG} there)", status
        )
    if not (folder / SUMMARY).exists():
        raise RunFailed(
            f"the run in {folder} ended before it had measured anything (see {LOG} there)", status
        )
    return folder


def variables(benchmark: Benchmark) -> dict[str, str]:
    """Returns the variables of a run. Those that set threads come from its executor, not from this program."""
    threads = benchmark.executor.told_threads()
    own = {name: value for name, value in os.environ.items() if name not in THREAD_VARIABLES}
    told = {} if threads is None else dict.fromkeys(THREAD_VARIABLES, str(threads))
    return own | told | benchmark.run.environment


def summary(folder: Path) -> dict[str, Any]:
    """Returns the measurements of a run."""
    found: dict[str, Any] = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
    return found


def perform(benchmark: Benchmark, folder: Path) -> dict[str, Any]:
    """Runs a benchmark in this process, phase by phase; returns the measurements and the result of the check."""
    phases: dict[str, float] = {}
    app, transformer, records = benchmark.app, benchmark.transformer, benchmark.records
    with ExitStack() as stack:
        noted = records.open(folder) if records is not None else None
        if noted is not None:
            stack.callback(noted.close)
        moved = transformer.open(folder) if transformer is not None else None
        if moved is not None:
            stack.callback(moved.close)
        executor = benchmark.executor.limited(app.task_timeout())
        timed: list[TimedBackend] = []
        with _opened(executor, phases, timed if benchmark.run.timings else None) as backend:
            with _timed(phases, "warm-up"):
                for task in [backend.submit(nothing, one) for one in range(benchmark.run.warmup)]:
                    task.result()
            for one in timed:
                one.begin()
            engine = Engine(
                backend,
                workers=benchmark.executor.workers,
                filter=benchmark.filter,
                transformer=moved,
                records=noted,
                sizes=records is not None and records.sizes,
            )
            with _timed(phases, PREPARE):
                app.inputs(folder)
            with _timed(phases, "run"):
                result = app.run(engine, folder)
            engine.finish()
            hops = [hop._asdict() for one in timed for hop in one.hops()]
    says = app.check(result)
    return {
        "app": benchmark.name("app"),
        "executor": benchmark.name("executor"),
        "tasks": engine.submitted,
        "seconds": phases,
        "makespan": sum(phases.values()) - phases[PREPARE],
        "tasks_per_second": engine.submitted / phases["run"],
        "result": says,
        "figures": _numbers(benchmark.name("app"), app.figures(result)),
        **({"hops": hops} if timed else {}),
    }


def _numbers(app: str, figures: dict[str, Any]) -> dict[str, float]:
    """Returns the figures that an application has measured itself; raises ``BenchError`` if one is not a number."""
    for name, value in figures.items():
        if not isinstance(value, (int, float)):
            raise BenchError(f"the figure {name} of {app} is no number: {value!r}")
    return figures


@contextmanager
def _opened(
    executor: ExecutorPlugin, phases: dict[str, float], timed: list[TimedBackend] | None
) -> Iterator[Backend]:
    """Opens an executor for the block; if ``timed`` is a list, opens it with timings and appends the backend to it."""
    backend: Backend
    with _timed(phases, "open"):
        if timed is None:
            backend = executor.open()
        else:
            backend = one = executor.open_timed()
            timed.append(one)
    try:
        yield backend
    finally:
        with _timed(phases, "close"):
            backend.shutdown()


@contextmanager
def _timed(phases: dict[str, float], name: str) -> Iterator[None]:
    begun = perf_counter()
    try:
        yield
    finally:
        phases[name] = perf_counter() - begun
